"""What a site has its nodes do before and after jobs: prolog, epilog, task prolog, plugins."""

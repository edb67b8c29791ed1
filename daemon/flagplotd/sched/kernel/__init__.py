"""The compiled scheduling core: fitting, timelines, searching and the cycle. Integers only, nothing allocated inside."""

"""The pure state machine: stimuli in, events and orders out. No clock, no file, no socket."""

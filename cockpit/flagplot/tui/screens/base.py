"""The screen under all dialogs."""

from __future__ import annotations

from textual.screen import Screen


class BaseScreen(Screen[None]):
    """The frame and the views."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Copying is offered while there is text selected (with the mouse)."""
        return action != "copy_text" or bool(self.get_selected_text())

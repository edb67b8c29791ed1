"""Where one is in the cockpit: the trail of pages, and the way back and forward through them."""

from __future__ import annotations

from textual.containers import Container

from flagplot.language import tr
from flagplot.tui.main_view import MainView
from flagplot.tui.registry import ViewEntry
from flagplot.tui.services import Services
from flagplot.tui.widgets.hints import Hints
from flagplot.tui.widgets.topline import TopLine
from flagplot.view.history import History
from flagplot_wire.ids import JobNumber


class Navigation(Services):
    """The app's pages. `trail` are the names of those on the way here, the last is on screen."""

    views: tuple[ViewEntry, ...]
    trail: list[str]
    history: History

    def show_now(self) -> None:
        """Bring the screen up to date without waiting for the next tick."""
        raise NotImplementedError

    def all_clusters(self) -> MainView:
        """A fresh page of all clusters."""
        raise NotImplementedError

    def await_job(self, number: JobNumber) -> None:
        """Let the queue's cursor go to a job that was just submitted, as soon as it is listed."""
        from flagplot.tui.screens.queue import QueueView

        for queue in self.screen_stack[0].query(QueueView):
            queue.awaited = number

    def open_job(self, number: JobNumber, tab: str = "") -> None:
        """Show a job's page, on one of its tabs (`detail why output script usage`)."""
        from flagplot.tui.screens.job import JobView

        if number not in self.mirror.jobs:
            why = tr("It may have ended long ago: flagplot show job asks the store")
            self.failure(tr("There is no job {number} here").format(number=number), [why])
            return
        name = f"job-{number}"
        base = self.screen_stack[0]
        trail = [*[step for step in self.trail if not step.startswith("job-")], name]
        if found := base.query(f"#view-{name}"):
            if tab:
                found.first(JobView).tab = tab
            self.call_later(self._enter, None, trail)
            return
        for old in base.query(JobView):
            old.remove()
        page = JobView(number, tab)
        page.id = f"view-{name}"
        self.call_later(self._enter, page, trail)

    def open_node(self, name: str) -> None:
        """Show a node's page."""
        from flagplot.tui.screens.node import NodeView

        if name not in self.mirror.nodes:
            why = tr("It may have been removed from the cluster")
            self.failure(tr("There is no node {name} here").format(name=name), [why])
            return
        step = f"node-{self.fleet.key(name)}"
        base = self.screen_stack[0]
        trail = [*[step for step in self.trail if not step.startswith(("node-", "job-"))], step]
        page: NodeView | None = None
        if not base.query(f"#view-{step}"):
            for old in base.query(NodeView):
                old.remove()
            page = NodeView(name)
            page.id = f"view-{step}"
        self.call_later(self._enter, page, trail)

    @property
    def active_view(self) -> MainView | None:
        """The view on screen."""
        found = self.screen_stack[0].query(f"#view-{self.trail[-1]}") if self.trail and self.screen_stack else None
        return found.first(MainView) if found else None

    @property
    def crumbs(self) -> list[str]:
        """The way here, as words."""
        found = [self.screen_stack[0].query(f"#view-{step}") for step in self.trail]
        return [query.first(MainView).crumb for query in found if query]

    @property
    def view_counts(self) -> str:
        """The active view's counts."""
        view = self.active_view
        return view.counts if view else ""

    def _switch(self) -> None:
        view = self.active_view
        for other in self.screen_stack[0].query(MainView):
            other.set_class(other is view, "-active")
        if view is not None:
            view.entered()
            view.focus_target().focus()
        self.show_now()
        self.call_after_refresh(self._redraw_frame)

    def _redraw_frame(self) -> None:
        base = self.screen_stack[0]
        base.query_one(TopLine).refresh()
        base.query_one(Hints).refresh()

    def action_view(self, name: str, text: str | None = None) -> None:
        """Show a main view; with a filter as a step from the view of now, to which Esc leads back."""
        entry = next(entry for entry in self.views if entry.name == name)
        fresh = None if self.screen_stack[0].query(f"#view-{name}") else entry.make()
        here = self.trail[:1] if text is not None and self.trail[:1] != [name] else []
        self.call_later(self._enter, fresh, [*here, name], text)

    async def _enter(self, fresh: MainView | None, trail: list[str], text: str | None = None) -> None:
        """Go to the last view of `trail`; a fresh one is mounted first, with everything in it."""
        if fresh is not None and not self.screen_stack[0].query(f"#{fresh.id}"):
            await self.screen_stack[0].query_one("#body", Container).mount(fresh)
        self.trail = trail
        self.history.visit(tuple(trail))
        self._switch()
        if text is not None and (view := self.active_view) is not None:
            view.filter_changed(text)

    async def action_back(self) -> None:
        """Undo one step of the view, else go one crumb back."""
        view = self.active_view
        if view is not None and view.escape():
            self.show_now()
        elif len(self.trail) > 1:
            self.trail = self.trail[:-1]
            self.history.visit(tuple(self.trail))
            self._switch()

    async def action_travel(self, by: int) -> None:
        """Back to the page before (-1), or forward again (1); pages of what is gone are left out."""
        while (trail := self.history.step(by)) is not None:
            pages = {step: self._page(step) for step in trail}
            if pages[trail[-1]] is None:
                continue
            body = self.screen_stack[0].query_one("#body", Container)
            for page in pages.values():
                if page is not None and not page.is_attached:
                    await body.mount(page)
            self.trail = [step for step in trail if pages[step] is not None]
            self._switch()
            return
        self.say(tr("There is nothing further back") if by < 0 else tr("There is nothing further ahead"))

    def _page(self, step: str) -> MainView | None:
        """The page of a step of a trail, made anew where it was closed; None where what it showed is gone."""
        if found := self.screen_stack[0].query(f"#view-{step}"):
            return found.first(MainView)
        kind, _, key = step.partition("-")
        page: MainView | None = None
        if entry := next((entry for entry in self.views if entry.name == step), None):
            page = entry.make()
        elif step == "clusters":
            page = self.all_clusters()
        elif kind == "job" and JobNumber(int(key)) in self.mirror.jobs:
            from flagplot.tui.screens.job import JobView

            page = JobView(JobNumber(int(key)))
        elif kind == "node" and self.fleet.name(int(key)) in self.mirror.nodes:
            from flagplot.tui.screens.node import NodeView

            page = NodeView(self.fleet.name(int(key)))
        if page is not None:
            page.id = f"view-{step}"
        return page

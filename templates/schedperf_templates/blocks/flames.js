// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Draws the flame graphs of a page from their data, one figure per set of events.
// All text is untrusted: it is only assigned to textContent.
(() => {
  const ROW_PIXELS = 20;
  // Narrower frames are drawn only if they changed, or after a zoom or a search; a label needs some
  // letters.
  const NARROWEST_PIXELS = 1.5;
  const LABEL_PIXELS = 28;
  // Levels below the last one with a frame this wide need a zoom: they would take a third of the
  // height for narrow frames.
  const DEEPEST_PIXELS = 16;
  // Elements of all graphs of a figure together: what Chromium lays out in about 50 ms.
  const MOST_ELEMENTS = 2400;
  // If a zoomed frame has more callers, only the last ones have own rows; the others share one.
  const MOST_CALLERS = 3;
  const LAST_CALLERS = 2;
  // Gap between the box above the graph and a frame that is shown below it.
  const GAP_PIXELS = 8;
  // Room that a label needs besides its name: its mark with a space, the frame's padding, rounding.
  const MARK_LETTERS = 2;
  const PADDING_PIXELS = 8;
  const PROBE_LETTERS = 100;

  // Where the pointer rests: a frame that moves below a resting pointer is not pointed at.
  let rests = "";
  document.addEventListener("pointermove", (event) => { rests = pixelOf(event); }, { passive: true });

  // A click has whole pixels, other events of a pointer have parts of them.
  const pixelOf = ({ clientX, clientY }) => `${Math.floor(clientX)} ${Math.floor(clientY)}`;

  // Drops fields that only a comparison has, if there is one side.
  // From here on frames are identified by name, because smaller trees number them differently.
  const withNamedOthers = (event) => ({ ...event, others: event.others.map((frame) => event.name[frame]) });

  const withoutEmpty = (event) => {
    const keepFilled = (extent) => Object.fromEntries(Object.entries(extent).filter(([, values]) => values.length));
    const keep = (measure) => ({
      ...measure,
      inclusive: keepFilled(measure.inclusive),
      self: keepFilled(measure.self),
      functions: keepFilled(measure.functions),
    });
    const parts = event.parts.map((part) => ({ ...part, measures: part.measures.map(keep) }));
    return event.labels.length > 1 ? event : { ...event, measures: event.measures.map(keep), parts };
  };

  class Graph {
    constructor(figure, data) {
      this.figure = figure;
      this.events = data.events.map(withNamedOthers).map(withoutEmpty);
      this.sides = data.sides;
      this.speedscope = data.speedscope;
      this.whole = data.whole;
      this.sums = data.sums;
      const find = (name) => figure.querySelector(`.flame-${name}`);
      Object.assign(this, { path: find("path"), detail: find("detail"), graphs: find("graphs"), around: find("around") });
      this.controls = new FlameControls(find("controls"), find("saves"), (some) => this.choose(some), (format) => this.save(format), (what, step) => this.step(what, step));
      this.usual = {
        event: "0", view: this.sides.length > 1 ? "diff" : "base", measure: "0", part: "", find: "",
        kernel: false, busy: false, up: false, all: false, only: false, fit: false, path: [],
      };
      // It has frames that can have the focus, so it needs none itself.
      ["role", "tabindex", "aria-label"].forEach((name) => this.graphs.removeAttribute(name));
      this.listen();
      this.open(page.state.get(figure.dataset.state));
      if (figure.matches("[data-target]")) {
        this.land();
      }
      new ResizeObserver(() => this.graphs.clientWidth !== this.drawnWidth && this.draw()).observe(this.graphs);
      figure.dataset.drawn = "done";
    }

    listen() {
      this.graphs.addEventListener("click", (event) => this.onClick(event));
      this.graphs.addEventListener("pointerover", (event) => this.onPointer(event));
      this.graphs.addEventListener("pointerleave", () => this.point(null));
      this.graphs.addEventListener("keydown", (event) => this.onKey(event));
      this.figure.addEventListener("find", ({ detail }) => this.findFunction(detail));
      this.figure.addEventListener("shown", () => this.land());
    }

    // Shows the state in an address.
    open(text) {
      const event = FlameState.read(text, this.usual, { event: this.events.map((_, place) => String(place)) }).event;
      const data = this.events[event];
      this.wish = FlameState.read(text, this.usual, {
        event: [event],
        view: data.labels.length > 1 ? Object.keys(FlameControls.VIEWS) : ["base"],
        measure: data.measures.map((_, place) => String(place)),
        part: (data.parts ?? []).map(FlameParts.keyOf),
      });
      this.controls.build(this.events, data, this.whole);
      this.rebuild();
    }

    choose(some) {
      if ("event" in some) {
        const { view, find, kernel, busy, up, only, fit } = this.wish;
        this.wish = { ...this.usual, view, find, kernel, busy, up, only, fit, ...some };
        this.controls.build(this.events, this.events[some.event], this.whole);
        this.controls.selects.event.focus();
      } else {
        this.wish = { ...this.wish, ...some };
      }
      page.state.set(this.figure.dataset.state, FlameState.write(this.wish, this.usual));
      this.rebuild();
    }

    // Builds the tree of the selected part and filters; the zoom is kept as far as its path exists.
    rebuild() {
      const { wish } = this;
      const event = this.events[wish.event];
      const part = FlameParts.choose(event, wish.part);
      this.part = part.name;
      const data = FlameReduce(part.data, wish);
      this.tree = new FlameTree(data, data.measures[wish.measure]);
      this.focus = this.current = this.tree.findPath(wish.path);
      this.groups = this.tree.findEach(wish.find);
      this.matches = wish.find.trim() ? new Set(this.groups.flatMap((group) => [...group])) : null;
      this.changes = this.tree.inOrder(this.tree.coloured());
      this.changedPaths = this.tree.withCallers(this.changes);
      this.drawnAnyway = this.tree.withCallers([...(this.matches ?? []), ...this.changes]);
      this.draw();
    }

    // Shows where a function is called, and goes there.
    findFunction({ event, find }) {
      this.choose({ ...(this.wish.event === event ? {} : { event }), find, path: [], part: "", kernel: false, busy: false, only: false, fit: true });
      this.figure.scrollIntoView({ block: "start", behavior: "instant" });
      this.graphs.querySelector(".flame-graph").focus({ preventScroll: true });
      this.land();
    }

    // Shows the largest changed frame that was searched for, else the largest one, in the window and
    // in the box above the graph.
    land() {
      const drawn = [...this.matches ?? []].filter((frame) => this.elementOf(frame) !== null);
      const changed = drawn.filter((frame) => this.tree.changed.has(frame));
      const [largest] = this.tree.largestFirst(changed.length ? changed : drawn);
      if (largest === undefined || this.focus !== 0) {
        return;
      }
      this.resting = rests;
      this.current = largest;
      this.describe(largest);
      this.bringIntoView(largest);
    }

    elementOf(frame) {
      return this.graphs.querySelector(`[data-frame="${frame}"]`);
    }

    // The whole graph if the window has room for it below the box, else the frame.
    bringIntoView(frame) {
      const element = this.elementOf(frame);
      if (!element) {
        return;
      }
      element.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
      // The box stays in the window when the page is scrolled.
      const highest = parseFloat(getComputedStyle(this.detail).top) + this.detail.offsetHeight + GAP_PIXELS;
      const graphs = this.graphs.getBoundingClientRect();
      const isWhole = highest + graphs.height <= innerHeight;
      const { top, bottom } = isWhole ? graphs : element.getBoundingClientRect();
      if (top < highest || bottom > innerHeight) {
        const lowest = isWhole ? bottom - innerHeight + GAP_PIXELS : Infinity;
        scrollBy({ top: Math.min(top - highest, lowest), behavior: "instant" });
      }
    }

    zoom(frame) {
      this.choose({ path: this.tree.pathOf(frame), fit: false });
      this.bringIntoView(frame);
    }

    // Goes to the next or the previous frame that changed or was found; beyond the last one is the
    // first. It zooms if the frame is too narrow for its name. Where only found paths are drawn, it
    // goes to those.
    step(what, step) {
      const isShown = (frame) => !this.wish.fit || this.elementOf(frame) !== null;
      const frames = what === "match" ? this.tree.inOrder(this.matches ?? []).filter(isShown) : this.changes;
      if (!frames.length) {
        return;
      }
      const at = frames.indexOf(this.current);
      const first = step > 0 ? 0 : frames.length - 1;
      const frame = frames[at < 0 ? first : (at + step + frames.length) % frames.length];
      if (!this.isReadable(frame)) {
        this.choose({ path: this.tree.pathOf(this.widestView(frame)), fit: false });
      }
      this.resting = rests;
      this.current = frame;
      this.describe(frame);
      this.controls.say([`${what} ${frames.indexOf(frame) + 1} of ${frames.length}: ${this.tree.name(frame)}`, ...this.saysFound()]);
      this.bringIntoView(frame);
    }

    isReadable(frame) {
      const element = this.elementOf(frame);
      return element !== null && (frame === this.focus || element.clientWidth >= this.labelPixels(frame));
    }

    // The outermost caller to zoom to at which the name of a frame can be read.
    widestView(frame) {
      const widths = this.tree.widths[this.views()[0]];
      let best = frame;
      for (let one = frame; one >= 0; one = this.tree.data.parent[one]) {
        if (widths[one] > 0 && (widths[frame] / widths[one]) * this.drawnWidth >= this.labelPixels(frame)) {
          best = one;
        }
      }
      return best;
    }

    // The width that a frame needs for its mark and its whole name.
    labelPixels(frame) {
      return Math.ceil(this.letterPixels * (this.tree.name(frame).length + MARK_LETTERS)) + PADDING_PIXELS;
    }

    // Letters of the graphs are of equal width.
    measureLetters() {
      const probe = page.make("div", { class: "flame-graph" });
      const letters = probe.appendChild(page.make("span", {}, "0".repeat(PROBE_LETTERS)));
      probe.style.whiteSpace = "nowrap";
      this.graphs.append(probe);
      this.letterPixels = letters.getBoundingClientRect().width / PROBE_LETTERS;
      probe.remove();
    }

    views() {
      return this.wish.view === "all" ? ["base", "diff", "new"] : [this.wish.view];
    }

    draw() {
      const hadFocus = this.graphs.contains(document.activeElement) ? document.activeElement.dataset.view : null;
      this.drawnWidth = this.graphs.clientWidth;
      this.measureLetters();
      this.fit = this.wish.fit ? FlameFit.place(this.tree, this.focus, this.groups, this.drawnWidth, (frame) => this.labelPixels(frame)) : null;
      const views = this.fit ? [this.wish.view === "all" ? "diff" : this.wish.view] : this.views();
      this.near = new Map();
      this.graphs.classList.toggle("fit", this.fit !== null);
      this.graphs.replaceChildren(...views.flatMap((view) => this.drawView(view, MOST_ELEMENTS / views.length)));
      this.controls.show(this.wish, this.tree, this.matches, this.saysFound());
      const zoom = (frame) => this.zoom(frame);
      FlameAround.drawPath(this.path, this.tree, this.focus, zoom);
      FlameAround.drawTables(this.around, this.tree, this.focus, zoom);
      this.describe(this.current);
      if (hadFocus) {
        const [first] = this.graphs.querySelectorAll(".flame-graph");
        (this.graphs.querySelector(`[data-view="${hadFocus}"]`) ?? first).focus({ preventScroll: true });
      }
      this.graphs.scrollTop = this.wish.up ? this.graphs.scrollHeight : 0;
    }

    // Lines about the frames that were found. A finding counts all functions of a class and names a
    // few. A function may be too small for a frame and still be in
    // a table of the section.
    saysFound() {
      const { matches, tree, figure, wish } = this;
      if (!matches) {
        return [];
      }
      const wanted = wish.find.trim().replace(/^=/, "").toLowerCase();
      const names = [...figure.closest("section").querySelectorAll(".table tbody th")];
      if (matches.size === 0 && names.some((name) => name.textContent.toLowerCase().includes(wanted))) {
        return ["0 frames: the function is too small to be drawn, but is listed in the tables of this section"];
      }
      const sum = this.sums.find((one) => String(one.event) === wish.event && one.find === wish.find);
      const [frames, withCallees] = tree.saysFound(matches);
      return sum && tree.isShare && !wish.part
        ? [frames, `the finding is about all functions of the class ${sum.name}: ${tree.saysSums(sum)}`]
        : [frames, withCallees].filter(Boolean);
    }

    drawView(view, most) {
      const frames = this.fit?.placed ?? this.fewest(this.shallow(this.placeFrames(view)), most);
      frames.forEach((one) => this.near.set(one.frame, one));
      const levels = frames.reduce((deepest, one) => Math.max(deepest, one.level), 0) + 1;
      const graph = page.make("div", {
        class: "flame-graph", role: "tree", tabindex: 0, "data-view": view,
        "aria-label": `Call tree of ${this.tree.data.event}: ${this.widthsOf(view)}`,
      });
      graph.style.height = `${levels * ROW_PIXELS}px`;
      graph.style.minWidth = this.fit ? `${this.fit.width}px` : "";
      graph.append(...frames.map((one) => this.drawFrame(one, view, levels)));
      return [this.drawTitle(view), graph];
    }

    widthsOf(view) {
      return { base: this.tree.data.labels[0], new: this.tree.data.labels[1], diff: "the mean of base and new" }[view];
    }

    // The title of a graph names the side of its widths, with the badge.
    drawTitle(view) {
      const { make } = page;
      const title = make("p", { class: "flame-title" });
      const place = { base: 0, new: 1 }[view];
      if (place !== undefined) {
        title.append(make("b", { class: `badge side-${this.sides[place].place}` }), " ");
      }
      const whose = this.widthsOf(view);
      const of = this.part ? `, ${this.part}` : "";
      if (this.fit) {
        const { chosen } = this.fit;
        const shown = chosen.size < this.matches.size ? `the ${chosen.size} largest of ${this.matches.size}` : `all ${chosen.size}`;
        return page.make("p", { class: "flame-title" }, `Found paths: ${shown} found frames and their callers; frames are as wide as their names, not proportional to time${of}`);
      }
      title.append(this.tree.sides > 1 ? `${FlameControls.VIEWS[view]}: widths are ${view === "diff" ? whose : `those of ${whose}`}${of}` : `${whose}${of}`);
      return title;
    }

    // The callers of the focus, each as wide as the graph.
    placeCallers() {
      const callers = [0, ...this.tree.callersOf(this.focus)].slice(0, this.focus === 0 ? 0 : -1);
      const shared = callers.length > MOST_CALLERS ? callers.length - LAST_CALLERS : 1;
      const rows = callers.length ? [callers.slice(0, shared), ...callers.slice(shared).map((frame) => [frame])] : [];
      return rows.map((members, level) => ({
        frame: members.at(-1), members, level, left: 0, width: 1, above: rows[level - 1]?.at(-1) ?? -1, isCaller: true,
      }));
    }

    // The place of each frame, as fractions of the width.
    placeFrames(view) {
      const widths = this.tree.widths[view];
      const placed = this.placeCallers();
      placed.push({ frame: this.focus, level: placed.length, left: 0, width: 1, above: placed.at(-1)?.frame ?? -1 });
      const whole = widths[this.focus];
      const pending = whole > 0 ? [placed.at(-1)] : [];
      while (pending.length) {
        const one = pending.pop();
        let { left } = one;
        for (const frame of this.tree.children[one.frame]) {
          const width = widths[frame] / whole;
          const isWide = width * this.drawnWidth >= NARROWEST_PIXELS && (!this.wish.only || this.changedPaths.has(frame));
          if (isWide || this.drawnAnyway.has(frame)) {
            const child = { frame, level: one.level + 1, left, width, above: one.frame };
            placed.push(child);
            pending.push(child);
          }
          left += width;
        }
      }
      return placed;
    }

    shallow(frames) {
      const isTelling = ({ frame, width }) => width * this.drawnWidth >= DEEPEST_PIXELS || this.drawnAnyway.has(frame);
      const deepest = frames.filter(isTelling).reduce((most, one) => Math.max(most, one.level), 0);
      return frames.filter((one) => one.level <= deepest);
    }

    // If there are too many frames: those that are drawn anyway, then the widest. They include
    // callers, which are at least as wide as their callees.
    fewest(frames, most) {
      const isWanted = ({ frame }) => this.drawnAnyway.has(frame);
      const order = (a, b) => isWanted(b) - isWanted(a) || b.width - a.width || a.level - b.level;
      return frames.length > most ? frames.sort(order).slice(0, most) : frames;
    }

    drawFrame(one, view, levels) {
      const { tree } = this;
      const { frame, level, left, width, members = [frame] } = one;
      const shownAll = this.wish.all && !tree.hasIntervals;
      const change = members.length > 1 ? null : tree.shownChange(frame, shownAll);
      const tone = change ? (change > 0 ? "more" : "less") : "";
      const top = this.wish.up ? levels - 1 - level : level;
      const element = page.make("div", {
        role: "treeitem", id: `${this.figure.id}-${view}-${frame}`, "aria-level": tree.depth[frame] + 1, "data-frame": frame,
        "aria-label": this.saysRow(members),
      });
      element.className = ["frame", tone, this.kindOf(frame), one.isCaller ? "caller" : "", members.length > 1 ? "several" : ""].join(" ");
      Object.assign(element.style, { left: `${left * 100}%`, width: `${width * 100}%`, top: `${top * ROW_PIXELS}px` });
      if (change) {
        element.style.setProperty("--heat", `${tree.heat(change, shownAll)}%`);
      }
      const mark = { more: "\u25b2 ", less: "\u25bc " }[tone] ?? "";
      const pixels = width * (this.fit?.width ?? this.drawnWidth);
      const hasLabel = pixels >= LABEL_PIXELS;
      element.classList.toggle("bare", !hasLabel);
      element.textContent = hasLabel ? mark + this.labelOf(members, pixels) : mark.trim();
      return element;
    }

    saysRow(members) {
      const { tree } = this;
      const frame = members.at(-1);
      return members.length > 1
        ? `${members.length} callers: ${members.map((one) => tree.name(one)).join(", ")}`
        : `${tree.name(frame)}, ${tree.says(frame, "inclusive")}`;
    }

    // If several frames share a row: the names of the last ones, as many as fit.
    labelOf(members, pixels) {
      const names = members.map((one) => this.tree.name(one));
      if (names.length === 1) {
        return names[0];
      }
      const room = (pixels - PADDING_PIXELS) / this.letterPixels;
      const last = (count) => names.slice(-count).join(" \u203a ");
      const label = (count) => (count < names.length ? `\u2026 ${names.length - count} more \u203a ${last(count)}` : last(count));
      let count = 1;
      while (count < names.length && label(count + 1).length <= room) {
        count += 1;
      }
      return label(count).length <= room ? label(count) : `\u2026 ${last(1)}`;
    }

    kindOf(frame) {
      const found = this.matches ? (this.matches.has(frame) ? "found" : "out") : "";
      const rest = this.tree.isRemainder(frame) ? "rest" : "";
      return `${found} ${rest} ${this.tree.isKernel(frame) ? "kernel" : ""}`;
    }

    // isPointed: whether the frame is below the pointer; another frame may be selected.
    describe(frame, isPointed = false) {
      const { data } = this.tree;
      const name = frame === 0 ? `${data.event}, all samples` : this.tree.name(frame);
      const several = data.counts.length > 1 || data.counts[0] > 1;
      const runs = `n = ${data.counts.join(" + ")} ${several ? data.independent : data.independent.replace(/s$/, "")}`;
      // All time is 100% on both sides; parts of it and costs can change.
      const { base, new: other } = this.tree.measure.inclusive;
      const isWhole = frame === 0 && this.tree.isShare && [base, other ?? base].every(([all]) => Math.abs(all - 100) < 1e-6);
      const isUnsure = this.tree.sides > 1 && !this.tree.hasIntervals;
      const parts = isWhole
        ? [`${other ? "base 100.00%, new 100.00%" : "100%"}; all percentages of the graph refer to this total${isUnsure ? "; changes have no CI" : ""}`]
        : [this.tree.says(frame, "inclusive"), `self: ${this.tree.says(frame, "self")}`];
      if (this.tree.changedNames.has(data.name[frame])) {
        parts.push(`self, on all call paths: ${this.tree.says(data.name[frame], "functions")}`);
      }
      if (this.tree.sides > 1 && this.tree.isOther(frame)) {
        parts.push("part of a command other than the workload: changes are not coloured");
      }
      const kind = data.names[data.name[frame]]?.class;
      const { make } = page;
      const where = [kind ? `(${kind})` : "", this.part, runs].filter(Boolean).join(", ");
      const title = make("span", { class: "flame-name" });
      title.append(
        make("span", {}, make("b", {}, `${name} ${this.tree.dso(frame)}`.trim()), ` ${where}`),
        make("i", { class: isPointed ? "pointed" : "current" }, isPointed ? "below the pointer" : "selected"),
      );
      this.detail.replaceChildren(title, ...parts.map((part) => make("span", {}, part)));
      this.mark("current", this.current);
    }

    // The same frame is marked in all graphs of the figure.
    mark(name, frame) {
      this.graphs.querySelectorAll(`.${name}`).forEach((one) => one.classList.remove(name));
      this.graphs.querySelectorAll(`[data-frame="${frame}"]`).forEach((one) => {
        one.classList.add(name);
        if (name === "current") {
          one.parentElement.setAttribute("aria-activedescendant", one.id);
        }
      });
    }

    onClick(event) {
      const found = event.target.closest(".frame");
      if (found) {
        found.parentElement.focus({ preventScroll: true });
        this.resting = pixelOf(event);
        this.zoom(Number(found.dataset.frame));
      }
    }

    onPointer(event) {
      // Ignore a frame that moves under a resting pointer.
      if (this.resting === pixelOf(event)) {
        return;
      }
      this.resting = null;
      const found = event.target.closest(".frame");
      this.point(found ? Number(found.dataset.frame) : null);
    }

    point(frame) {
      this.mark("pointed", frame);
      this.describe(frame ?? this.current, frame !== null && frame !== this.current);
    }

    onKey(event) {
      const { parent } = this.tree.data;
      const zooms = { Enter: this.current, " ": this.current, Backspace: Math.max(0, parent[this.focus]), Escape: 0 };
      const isBare = !event.ctrlKey && !event.altKey && !event.metaKey;
      if (isBare && event.key in this.moves()) {
        this.current = this.moves()[event.key]();
        this.describe(this.current);
        this.bringIntoView(this.current);
      } else if (isBare && event.key in zooms) {
        this.zoom(zooms[event.key]);
      } else if (isBare && event.key === "/") {
        this.controls.search.focus();
      } else {
        return;
      }
      // Keys handled here must not act on the page as well.
      event.preventDefault();
      event.stopPropagation();
    }

    // From the selected frame to those that are drawn around it.
    moves() {
      const at = this.near.get(this.current) ?? this.near.get(this.focus) ?? { frame: this.current, above: -1 };
      const leftFirst = [...this.near.values()].sort((a, b) => a.left - b.left);
      const calledBy = (frame) => leftFirst.filter(({ above }) => above === frame).map((one) => one.frame);
      const caller = () => (at.above < 0 ? at.frame : at.above);
      const called = () => calledBy(at.frame)[0] ?? at.frame;
      const beside = (step) => {
        const some = at.above < 0 ? [] : calledBy(at.above);
        return some[some.indexOf(at.frame) + step] ?? at.frame;
      };
      return {
        ArrowUp: this.wish.up ? called : caller,
        ArrowDown: this.wish.up ? caller : called,
        ArrowLeft: () => beside(-1),
        ArrowRight: () => beside(1),
        Home: () => this.focus,
      };
    }

    save(format) {
      const name = format === "folded" ? "flames.folded" : "flames.speedscope.json";
      page.save(FlameExport[format](this.tree, this.speedscope), name, "text/plain");
    }
  }

  const graphs = [];

  // Keys of the page act on the graph with the focus, or on the first one in view.
  const isInView = ({ figure }) => {
    const { top, bottom } = figure.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };
  const inView = () => graphs.find(({ figure }) => figure.contains(document.activeElement)) ?? graphs.find(isInView);
  const showView = (view) => {
    const graph = inView();
    const hasView = graph && (view === "base" || graph.tree.sides > 1);
    if (hasView) {
      graph.choose({ view });
    }
    return Boolean(hasView);
  };
  // A graph that was not drawn yet is in a folded section.
  const goToFolded = () => {
    const figure = page.later.first("figure.flames");
    if (figure) {
      page.unfold(figure);
      figure.scrollIntoView({ block: "start", behavior: "instant" });
    }
    return Boolean(figure);
  };
  const go = () => {
    const graph = inView() ?? graphs[0];
    if (!graph) {
      return goToFolded();
    }
    // Keeps the controls in view.
    graph?.figure.scrollIntoView({ block: "start" });
    graph?.graphs.querySelector(".flame-graph").focus({ preventScroll: true });
    return Boolean(graph);
  };
  const addKeys = () => {
    Object.entries(FlameControls.VIEWS).forEach(([view, title], place) => {
      page.press(String(place + 1), `flame graph: show ${title.toLowerCase()}`, () => showView(view));
    });
    page.press("f", "go to the flame graph; there: arrows move, Enter zooms, Backspace zooms out one level, Escape shows all, / searches", go);
  };

  page.attach((main) => {
    // The other scripts are loaded by now.
    if (main === document.querySelector("main")) {
      addKeys();
    }
    main.querySelectorAll("figure.flames").forEach(async (figure) => {
      const graph = new Graph(figure, await page.island(figure));
      page.state.on(figure.dataset.state, (text) => graph.open(text));
      graphs.push(graph);
    });
  });
})();

"use strict";
// Draws the flame graphs of a page from their data, one figure a set of events.
// Whatever it shows is text of strangers: it goes through textContent alone.
(() => {
  const ROW_PIXELS = 20;
  // Narrower frames are not drawn until somebody zooms or finds them; a label needs some letters.
  const NARROWEST_PIXELS = 1.5;
  const LABEL_PIXELS = 28;
  const VIEWS = { diff: "Difference", base: "Base", new: "New", all: "All three" };

  const make = (tag, attributes = {}, text = "") => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      element.setAttribute(name, value);
    }
    element.textContent = text;
    return element;
  };

  class Graph {
    constructor(figure, number) {
      this.figure = figure;
      this.id = `flame-${number}`;
      this.trees = JSON.parse(figure.querySelector("script").textContent).events.map((event) => new FlameTree(event));
      this.tree = this.trees[0];
      this.view = this.tree.sides > 1 ? "diff" : "base";
      this.focus = 0;
      this.current = 0;
      this.matches = null;
      this.drawnAnyway = new Set();
      this.coloursAll = false;
      this.controls = figure.querySelector(".flame-controls");
      this.detail = figure.querySelector(".flame-detail");
      this.graphs = figure.querySelector(".flame-graphs");
      this.addControls();
      this.graphs.addEventListener("click", (event) => this.onClick(event));
      this.graphs.addEventListener("pointerover", (event) => this.onPointer(event));
      this.graphs.addEventListener("pointerleave", () => this.describe(this.current));
      this.graphs.addEventListener("keydown", (event) => this.onKey(event));
      new ResizeObserver(() => this.graphs.clientWidth !== this.drawnWidth && this.draw()).observe(this.graphs);
      figure.dataset.drawn = "done";
    }

    addControls() {
      if (this.trees.length > 1) {
        this.addSelect("Event", this.trees.map((tree) => tree.data.event), (place) => this.choose(this.trees[place]));
      }
      if (this.tree.sides > 1) {
        this.addViews();
      }
      if (this.tree.data.measures.length > 1) {
        const names = this.tree.data.measures.map((one) => one.measure === "share" ? "share of all time" : `cost per ${one.operation}`);
        this.addSelect("Measure", names, (place) => {
          this.place = place;
          this.choose(this.tree);
        });
      }
      const search = this.add("Find", make("input", { type: "search", size: 18, spellcheck: "false" }));
      search.addEventListener("input", () => this.search(search.value));
      this.out = make("button", { type: "button" }, "Whole graph");
      this.out.addEventListener("click", () => this.zoom(0));
      this.controls.append(this.out);
      if (this.tree.sides > 1 && !this.tree.hasIntervals) {
        const box = this.add("Colour differences although there is no interval", make("input", { type: "checkbox" }));
        box.addEventListener("change", () => { this.coloursAll = box.checked; this.draw(); });
      }
      this.found = this.controls.appendChild(make("output"));
      this.controls.hidden = false;
    }

    add(title, input) {
      const label = make("label", {}, `${title} `);
      label.append(input);
      this.controls.append(label);
      return input;
    }

    addSelect(title, names, choose) {
      const select = this.add(title, make("select"));
      names.forEach((name, place) => select.append(make("option", { value: place }, name)));
      select.addEventListener("change", () => choose(Number(select.value)));
    }

    addViews() {
      const group = make("span", { role: "group", "aria-label": "Widths" });
      this.buttons = Object.entries(VIEWS).map(([view, title]) => {
        const button = make("button", { type: "button", "data-view": view }, title);
        button.addEventListener("click", () => { this.view = view; this.draw(); });
        return group.appendChild(button);
      });
      this.controls.append(group);
    }

    choose(tree) {
      tree.use(tree.data.measures[this.place ?? 0] ?? tree.data.measures[0]);
      if (tree !== this.tree) {
        this.tree = tree;
        this.focus = this.current = 0;
      }
      this.search(this.controls.querySelector("input[type=search]").value);
    }

    search(text) {
      const wanted = text.trim().toLowerCase();
      this.matches = wanted ? this.tree.find(wanted) : null;
      this.drawnAnyway = this.tree.withCallers(this.matches ?? []);
      this.found.textContent = this.matches ? this.tree.saysFound(this.matches) : "";
      this.draw();
    }

    zoom(frame) {
      this.focus = this.current = frame;
      this.draw();
    }

    draw() {
      const views = this.view === "all" ? ["base", "diff", "new"] : [this.view];
      const hadFocus = this.graphs.contains(document.activeElement) ? document.activeElement.dataset.view : null;
      this.drawnWidth = this.graphs.clientWidth;
      this.graphs.replaceChildren(...views.flatMap((view) => this.drawView(view)));
      this.buttons?.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.view === this.view)));
      this.out.disabled = this.focus === 0;
      this.describe(this.current);
      this.graphs.querySelector(`[data-view="${hadFocus}"]`)?.focus({ preventScroll: true });
    }

    drawView(view) {
      const side = { base: this.tree.data.labels[0], new: this.tree.data.labels[1], diff: "half base, half new" }[view];
      const title = make("p", { class: `flame-title ${view}` }, this.tree.sides > 1 ? `${VIEWS[view]}: widths are ${view === "diff" ? side : `those of ${side}`}` : side);
      const graph = make("div", {
        class: "flame-graph", role: "tree", tabindex: 0, "data-view": view,
        "aria-label": `Call tree of ${this.tree.data.event}: ${side}`,
      });
      const frames = this.placeFrames(view);
      const levels = frames.reduce((most, one) => Math.max(most, one.level), 0) + 1;
      graph.style.height = `${levels * ROW_PIXELS}px`;
      graph.append(...frames.map((one) => this.drawFrame(one, view)));
      return [title, graph];
    }

    // Where each frame is, in parts of the width: the callers of the focus take all of it.
    placeFrames(view) {
      const widths = this.tree.widths[view];
      const placed = [];
      for (let frame = this.focus; frame >= 0; frame = this.tree.data.parent[frame]) {
        placed.push({ frame, level: this.tree.depth[frame], left: 0, width: 1 });
      }
      const whole = widths[this.focus];
      const pending = whole > 0 ? [placed[0]] : [];
      while (pending.length) {
        const one = pending.pop();
        let { left } = one;
        for (const frame of this.tree.children[one.frame]) {
          const width = widths[frame] / whole;
          if (width * this.drawnWidth >= NARROWEST_PIXELS || this.drawnAnyway.has(frame)) {
            const child = { frame, level: one.level + 1, left, width };
            placed.push(child);
            pending.push(child);
          }
          left += width;
        }
      }
      return placed;
    }

    drawFrame({ frame, level, left, width }, view) {
      const element = make("div", { role: "treeitem", id: `${this.id}-${view}-${frame}`, "aria-level": level + 1, "data-frame": frame });
      const change = this.tree.shownChange(frame, this.coloursAll && !this.tree.hasIntervals);
      const tone = change ? (change > 0 ? "more" : "less") : "";
      const found = this.matches ? (this.matches.has(frame) ? "found" : "out") : "";
      const rest = this.tree.isRemainder(frame) ? "rest" : "";
      const kernel = this.tree.dso(frame).startsWith("[") ? "kernel" : "";
      element.className = ["frame", tone, rest, kernel, found, frame !== this.focus && width === 1 && level < this.tree.depth[this.focus] ? "caller" : ""].join(" ");
      Object.assign(element.style, { left: `${left * 100}%`, width: `${width * 100}%`, top: `${level * ROW_PIXELS}px` });
      if (change) {
        element.style.setProperty("--heat", `${this.tree.heat(change)}%`);
      }
      const mark = { more: "\u25b2 ", less: "\u25bc " }[tone] ?? "";
      element.setAttribute("aria-label", `${this.tree.name(frame)}, ${this.tree.says(frame, "inclusive")}`);
      element.textContent = width * this.drawnWidth >= LABEL_PIXELS ? mark + this.tree.name(frame) : "";
      return element;
    }

    describe(frame) {
      const { data } = this.tree;
      const name = frame === 0 ? `${data.event}, all samples` : this.tree.name(frame);
      const several = data.counts.length > 1 || data.counts[0] > 1;
      const runs = `n = ${data.counts.join(" + ")} ${several ? data.independent : data.independent.replace(/s$/, "")}`;
      const parts = [this.tree.says(frame, "inclusive"), `self: ${this.tree.says(frame, "self")}`];
      if (this.tree.changedNames.has(data.name[frame])) {
        parts.push(`self, on all paths: ${this.tree.says(data.name[frame], "functions")}`);
      }
      const kind = data.names[data.name[frame]]?.class;
      this.detail.replaceChildren(make("b", {}, `${name} ${this.tree.dso(frame)}`.trim()), ` ${kind ? `(${kind}), ` : ""}${runs}`, ...parts.map((part) => make("span", {}, part)));
      this.graphs.querySelectorAll(".current").forEach((one) => one.classList.remove("current"));
      this.graphs.querySelectorAll(`[data-frame="${this.current}"]`).forEach((one) => {
        one.classList.add("current");
        one.parentElement.setAttribute("aria-activedescendant", one.id);
      });
    }

    onClick(event) {
      const found = event.target.closest(".frame");
      if (found) {
        found.parentElement.focus({ preventScroll: true });
        this.zoom(Number(found.dataset.frame));
      }
    }

    onPointer(event) {
      const found = event.target.closest(".frame");
      this.describe(found ? Number(found.dataset.frame) : this.current);
    }

    onKey(event) {
      const { parent } = this.tree.data;
      const at = this.current;
      const beside = (step) => {
        const some = this.tree.children[parent[at]] ?? [];
        return some[some.indexOf(at) + step] ?? at;
      };
      const moves = {
        ArrowUp: () => Math.max(0, parent[at]),
        ArrowDown: () => this.tree.children[at][0] ?? at,
        ArrowLeft: () => beside(-1),
        ArrowRight: () => beside(1),
        Home: () => this.focus,
      };
      const zooms = { Enter: at, " ": at, Backspace: Math.max(0, parent[this.focus]), Escape: 0 };
      if (event.key in moves) {
        this.current = moves[event.key]();
        this.describe(this.current);
        event.currentTarget.querySelector(".current")?.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else if (event.key in zooms) {
        this.zoom(zooms[event.key]);
      } else {
        return;
      }
      event.preventDefault();
    }
  }

  document.querySelectorAll("figure.flames").forEach((figure, place) => new Graph(figure, place));
})();

// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The controls above a flame graph. They are stateless: choices go to a callback, and show() displays
// the current state.
const FlameControls = (() => {
  const VIEWS = { diff: "Difference", base: "Base", new: "New", all: "All three" };
  const FLAGS = {
    kernel: ["Kernel only", "hide user-space frames; kernel frames with different user-space callers are merged"],
    busy: ["Hide idle", "hide the time of idle CPUs"],
    only: ["Changed paths", "hide frames that did not change and have no changed callees"],
    fit: ["Found paths", "show only the found frames and their callers, wide enough to read their names"],
    up: ["Callers below", "callers at the bottom (flame graph) instead of at the top (icicle graph)"],
  };
  const KINDS = { node: "NUMA nodes", cpu: "CPUs", comm: "commands" };
  const { make, makeButton } = page;

  class Controls {
    // choose({name: value, …}) is called with a choice, save(format) for a download.
    // step("change", 1) goes to the next change, step("match", -1) to the previous match.
    constructor(element, saves, choose, save, step) {
      this.step = step;
      this.element = element;
      this.saves = saves;
      this.choose = choose;
      this.save = save;
      this.selects = {};
      this.flags = {};
    }

    build(trees, event, whole) {
      this.element.replaceChildren();
      this.addSelect("event", "Event", trees.map((one, place) => [String(place), one.place || one.event]));
      if (event.labels.length > 1) {
        this.addViews();
      }
      this.addSelect("measure", "Measure", event.measures.map((one, place) => [
        String(place), one.measure === "share" ? "share of total time" : `cost per ${one.operation}`,
      ]));
      this.addParts(event.parts ?? []);
      this.addFlags();
      this.addSearch();
      this.out = this.element.appendChild(makeButton("Whole graph", () => this.choose({ path: [], fit: false })));
      this.addNoInterval();
      this.addDownloads(event, whole);
      this.found = this.element.appendChild(make("output"));
      this.element.hidden = false;
    }

    addLabelled(title, input) {
      const label = make("label", {}, `${title} `);
      label.append(input);
      this.element.append(label);
      return input;
    }

    // A single choice needs no control.
    addSelect(name, title, choices) {
      if (choices.length > 1) {
        const select = this.addLabelled(title, make("select"));
        select.append(...choices.map(([value, text]) => make("option", { value }, text)));
        select.addEventListener("change", () => this.choose({ [name]: select.value }));
        this.selects[name] = select;
      }
    }

    addParts(parts) {
      if (!parts.length) {
        return;
      }
      const select = this.addLabelled("Samples of", make("select"));
      select.append(make("option", { value: "" }, "all CPUs and commands"));
      for (const [kind, title] of Object.entries(KINDS)) {
        const some = parts.filter((part) => part.kind === kind);
        if (some.length) {
          const group = select.appendChild(make("optgroup", { label: title }));
          group.append(...some.map((part) => make("option", { value: FlameParts.keyOf(part) }, FlameParts.nameOf(part))));
        }
      }
      select.addEventListener("change", () => this.choose({ part: select.value }));
      this.selects.part = select;
    }

    addViews() {
      const group = this.element.appendChild(make("span", { role: "group", "aria-label": "Widths" }));
      this.views = Object.entries(VIEWS).map(([view, title]) =>
        group.appendChild(makeButton(title, () => this.choose({ view }), { "data-view": view })));
    }

    addFlags() {
      const group = this.element.appendChild(make("span", { role: "group", "aria-label": "Frames" }));
      this.steps = Object.fromEntries(["change", "match"].map((what) => [what, this.makeSteps(what)]));
      for (const [name, [title, explains]] of Object.entries(FLAGS)) {
        const toggle = () => this.choose({ [name]: this.flags[name].getAttribute("aria-pressed") !== "true" });
        this.flags[name] = group.appendChild(makeButton(title, toggle, { title: explains, "aria-pressed": "false" }));
      }
      this.element.append(this.steps.change);
    }

    makeSteps(what) {
      const steps = [[`\u25c2 ${what}`, `Previous ${what}`, -1], [`${what} \u25b8`, `Next ${what}`, 1]];
      return make("span", { role: "group", "aria-label": what === "match" ? "Matches" : "Changes" },
        ...steps.map(([text, title, step]) => makeButton(text, () => this.step(what, step), { "aria-label": title, title })));
    }

    // A list of names is longer than a line of a phone, so the field grows; a pasted list has lines.
    addSearch() {
      this.search = this.addLabelled("Find", make("textarea", {
        rows: 1, spellcheck: "false", autocapitalize: "off", placeholder: "a | b, exact: =a",
      }));
      this.search.addEventListener("input", () => {
        const find = this.search.value.replace(/\s*\n\s*/g, "|");
        this.choose(find ? { find } : { find, fit: false });
      });
      this.search.addEventListener("keydown", (event) => this.onKey(event));
      this.element.append(this.steps.match);
    }

    onKey(event) {
      if (event.key === "Enter") {
        this.step("match", event.shiftKey ? -1 : 1);
        this.search.focus({ preventScroll: true });
      } else if (event.key === "Escape" && this.search.value) {
        this.choose({ find: "", fit: false });
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    }

    // As wide as its text, up to a line, and as high as the text needs then.
    growSearch() {
      const { search } = this;
      search.parentElement.style.setProperty("--letters", Math.max(search.value.length, search.placeholder.length));
      search.style.height = "auto";
      search.style.height = `${search.scrollHeight + search.offsetHeight - search.clientHeight}px`;
    }

    addNoInterval() {
      this.all = this.addLabelled("Colour differences that have no CI", make("input", { type: "checkbox" }));
      this.all.addEventListener("change", () => this.choose({ all: this.all.checked }));
    }

    // The page has merged smaller frames; whole says which command has them all, or is empty.
    addDownloads(event, whole) {
      const least = +(100 * event.least_share).toPrecision(3);
      this.saves.replaceChildren("Download call stacks");
      for (const [format, title] of [["folded", "folded"], ["speedscope", "for speedscope"]]) {
        this.saves.append(makeButton(title, () => this.save(format)));
      }
      this.saves.append(make("span", {}, `frames below ${least}% of total time, except changed ones, are merged into one per caller${whole && ` (all frames: ${whole})`}`));
      this.saves.hidden = false;
    }

    say(lines) {
      this.found.replaceChildren(...lines.map((line) => make("span", {}, line)));
    }

    // found has the lines about the frames that were found.
    show(wish, tree, matches, found) {
      const changes = tree.coloured().length;
      this.steps.change.hidden = changes === 0;
      this.steps.match.hidden = !matches?.size;
      this.flags.fit.hidden = !matches?.size && !wish.fit;
      this.flags.only.hidden = changes === 0 && !wish.only;
      Object.entries(this.selects).forEach(([name, select]) => { select.value = wish[name]; });
      Object.entries(this.flags).forEach(([name, button]) => button.setAttribute("aria-pressed", String(wish[name])));
      this.views?.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.view === wish.view)));
      this.all.checked = wish.all;
      this.all.parentElement.hidden = tree.sides === 1 || tree.hasIntervals;
      this.out.disabled = wish.path.length === 0 && !wish.fit;
      if (this.search.value !== wish.find) {
        this.search.value = wish.find;
      }
      this.growSearch();
      this.say(found);
    }
  }

  Controls.VIEWS = VIEWS;
  return Controls;
})();

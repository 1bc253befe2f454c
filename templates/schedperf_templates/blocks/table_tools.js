// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The tools above a table: search, buttons that show hidden rows, the menu to copy it, and titles
// that sort it.
const TableTools = (() => {
  const COPIES = [
    ["markdown", "Copy as Markdown"],
    ["plain", "Copy as plain text"],
    ["csv", "Copy as CSV"],
    ["json", "Copy as JSON"],
  ];
  const FILES = [["csv", "Download as CSV"], ["json", "Download as JSON"]];

  const { make, makeButton } = page;

  const say = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  // A button that opens a menu: arrows move in it, Escape and Tab close it.
  class Menu {
    constructor(id, title, entries) {
      this.list = make("div", { role: "menu", id, "aria-label": title, hidden: "" });
      this.button = makeButton("Copy", () => this.toggle(this.list.hidden), {
        "aria-haspopup": "menu", "aria-expanded": "false", "aria-controls": id, class: "opens-menu",
      });
      this.entries = entries.map(([words, act]) => makeButton(words, () => this.choose(act), { role: "menuitem", tabindex: "-1" }));
      this.list.append(...this.entries);
      this.element = make("div", { class: "table-menu" }, this.button, this.list);
      this.element.addEventListener("keydown", (event) => this.onKey(event));
      this.element.addEventListener("focusout", (event) => {
        if (!this.element.contains(event.relatedTarget)) {
          this.toggle(false);
        }
      });
    }

    toggle(isOpen, place = 0) {
      const { left, right } = this.button.getBoundingClientRect();
      this.element.classList.toggle("leftwards", left + right > innerWidth);
      this.list.hidden = !isOpen;
      this.button.setAttribute("aria-expanded", String(isOpen));
      if (isOpen) {
        this.entries.at(place).focus();
      }
    }

    choose(act) {
      this.button.focus();
      this.toggle(false);
      act();
    }

    onKey(event) {
      const at = this.entries.indexOf(document.activeElement);
      const moves = { ArrowDown: at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: -1 };
      if (event.key in moves) {
        this.toggle(true, moves[event.key] % this.entries.length);
        event.preventDefault();
      } else if (event.key === "Escape" && !this.list.hidden) {
        this.button.focus();
        this.toggle(false);
      } else if (this.list.hidden) {
        return;
      }
      // Keys pressed in a menu must not act on the page.
      event.stopPropagation();
    }
  }

  // acts: functions of the table: find, enter (go from the search to the first row), toggleQuiet,
  // unhide, unlimit, copy and save.
  class Tools {
    constructor(rows, { id, title, quietWord, acts }) {
      Object.assign(this, { rows, quietWord });
      this.search = make("input", {
        type: "search", "aria-label": `Search in: ${title}`, placeholder: "Search, -word excludes",
        autocomplete: "off", spellcheck: "false",
      });
      this.search.addEventListener("input", () => acts.find(this.search.value));
      this.search.addEventListener("keydown", (event) => {
        if (event.key === "Enter") {
          acts.enter();
        }
      });
      this.quiet = makeButton("", acts.toggleQuiet, { class: "chip" });
      this.hidden = makeButton("", acts.unhide, { class: "chip" });
      this.limit = makeButton("", acts.unlimit, { class: "chip" });
      this.allQuiet = make("span", { class: "muted" });
      this.count = make("output");
      const entries = [
        ...COPIES.map(([format, words]) => [words, () => acts.copy(format)]),
        ...FILES.map(([format, words]) => [words, () => acts.save(format)]),
      ];
      this.menu = new Menu(`${id}-menu`, `Copy: ${title}`, entries);
      this.element = make("div", { class: "table-tools", role: "group", "aria-label": `Tools for: ${title}` },
        this.search, this.quiet, this.hidden, this.limit, this.allQuiet, this.count, this.menu.element);
      this.allQuiet.textContent = rows.quiet.length === 1 ? `the only row is ${quietWord}` : `all ${rows.quiet.length} rows ${quietWord}`;
      this.allQuiet.hidden = !rows.isAllQuiet;
    }

    update() {
      const { rows } = this;
      if (this.search.value !== rows.search) {
        this.search.value = rows.search;
      }
      const quiet = rows.quiet.length;
      this.quiet.hidden = quiet === 0 || rows.isAllQuiet || rows.limit !== null;
      this.quiet.setAttribute("aria-pressed", String(rows.showsQuiet));
      this.quiet.textContent = rows.showsQuiet ? `${say(quiet, "row")} shown (${this.quietWord}): hide` : `${say(quiet, "row")} hidden (${this.quietWord}): show`;
      this.hidden.hidden = rows.hidden.size === 0;
      this.hidden.textContent = `${say(rows.hidden.size, "row")} hidden manually: show`;
      this.limit.hidden = rows.limit === null;
      this.limit.textContent = `${say(rows.limit?.size ?? 0, "row")} selected in the chart: show all`;
      const all = rows.items.length;
      this.count.textContent = rows.shown.length === all ? say(all, "row") : `${rows.shown.length} of ${say(all, "row")}`;
    }
  }

  // The titles of columns as buttons. A corner cell without a title has no button.
  class Titles {
    constructor(head, sortBy) {
      this.cells = [...head.querySelectorAll("th")];
      this.cells.forEach((cell) => {
        cell.replaceChildren(makeButton(cell.textContent.trim(), () => sortBy(cell.cellIndex), { class: "sorts" }));
      });
    }

    update(sorted) {
      this.cells.forEach((cell) => {
        const order = sorted?.isDescending ? "descending" : "ascending";
        cell.setAttribute("aria-sort", sorted?.column === cell.cellIndex ? order : "none");
      });
    }
  }

  // The row shown if no row matches: the reason, and buttons to show rows again.
  const makeNothing = (rows, quietWord, acts) => {
    const fitting = rows.items.filter((item) => rows.isPutAway(item) && rows.fitsSearch(item)).length;
    const parts = [];
    if (rows.terms.length) {
      parts.push(make("span", {}, `no row matches \u201c${rows.search.trim()}\u201d`), makeButton("Clear the search", () => acts.find("")));
    } else {
      parts.push(make("span", {}, "all rows are hidden"));
    }
    if (fitting && !rows.limit) {
      parts.push(makeButton(`Show ${fitting} hidden (${quietWord})`, acts.toggleQuiet));
    }
    parts.push(makeButton("Reset the table", acts.reset));
    return make("tr", {}, make("td", { colspan: rows.columns.length }, make("div", {}, ...parts)));
  };

  return { makeNothing, Titles, Tools };
})();

// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Makes tables interactive: order, search, rows that open, state in the address. Dispatches "rows"
// after each change and "row" for the row under the pointer; handles "limit", "choose" and "reveal".
const Tables = (() => {
  // Fewer rows need no tools.
  const MOST_ROWS_WITHOUT_TOOLS = 7;
  // Browsers stop a page that writes its address with every letter.
  const ADDRESS_DELAY_MS = 200;

  const byElement = new WeakMap();
  const tables = [];

  class LiveTable {
    constructor(element) {
      const table = element.querySelector(":scope > .scroll > table");
      Object.assign(this, { element, table, scroll: table.parentElement });
      this.title = this.scroll.getAttribute("aria-label");
      this.quietWord = element.dataset.quietWord;
      this.rows = new TableRows.Rows(table);
      this.current = null;
      this.pointed = null;
      this.writing = null;
      this.acts = {
        find: (text) => this.filter(() => this.rows.find(text)),
        enter: () => this.focus(this.rows.shown[0]),
        toggleQuiet: () => this.filter(() => { this.rows.showsQuiet = !this.rows.showsQuiet; }),
        unhide: () => this.change(() => this.rows.hidden.clear()),
        unlimit: () => this.limit(null),
        reset: () => this.change(() => this.rows.reset()),
        copy: (format) => page.copy(this.write(format), `${this.rows.shown.length} of ${this.rows.items.length} rows copied`),
        save: (format) => this.save(format),
      };
      this.makeControls();
      this.listen();
      this.restore(page.state.get(element.dataset.state), true);
    }

    makeControls() {
      // What a column means is written once, below the table.
      const meanings = new Map([...this.element.querySelectorAll(":scope > .explained dt")].map((term) => [term.textContent, term.nextElementSibling.textContent]));
      [...this.table.tHead.rows[0].cells].forEach((cell) => { cell.title = meanings.get(cell.textContent) ?? ""; });
      const opening = this.rows.all.filter((item) => item.opened);
      opening.forEach((item) => this.makeOpener(item));
      this.table.classList.add("live");
      this.table.classList.toggle("opens-rows", opening.length > 0);
      if (this.rows.items.length > MOST_ROWS_WITHOUT_TOOLS || this.rows.quiet.length) {
        const { element, title, quietWord, acts } = this;
        this.tools = new TableTools.Tools(this.rows, { id: element.id, title, quietWord, acts });
        this.scroll.before(this.tools.element);
        if (this.table.caption) {
          // The title stays above the tools; screen readers read it from the table itself.
          this.tools.element.before(page.make("div", { class: "table-title", "aria-hidden": "true" }, this.title));
          this.table.caption.classList.add("unseen");
        }
        this.titles = new TableTools.Titles(this.table.tHead, (column) => this.sortBy(column));
      }
    }

    makeOpener(item) {
      const { id } = item.opened;
      item.opened.querySelector("details").open = true;
      item.opener = page.makeButton("", () => this.open(item, !item.isOpen), {
        class: "opens", "aria-controls": id, "aria-label": `More on ${item.name}`,
      });
      item.row.cells[0].prepend(item.opener);
      item.row.classList.add("opening");
    }

    listen() {
      const { body } = this.rows;
      const itemAt = (event) => this.rows.owners.get(event.target.closest?.("tr")) ?? null;
      body.addEventListener("pointerover", (event) => this.point(itemAt(event)));
      body.addEventListener("pointerleave", () => this.point(null));
      body.addEventListener("focusin", (event) => this.onFocus(event, itemAt(event)));
      body.addEventListener("focusout", () => this.point(null));
      body.addEventListener("click", (event) => this.onClick(event, itemAt(event)));
      body.addEventListener("keydown", (event) => this.onKey(event, itemAt(event)));
      this.element.addEventListener("open-all", () => this.openAll());
      this.table.addEventListener("reveal", (event) => this.reveal(event.target));
      this.table.addEventListener("choose", (event) => this.choose(event.detail.number));
      this.table.addEventListener("limit", (event) => this.limit(event.detail.order));
    }

    // A pending change is newer than the address; an equal address changes nothing.
    restore(text, isFirst = false) {
      if (isFirst || (!this.writing && text !== TableAddress.pack(this.rows))) {
        TableAddress.unpack(this.rows, text);
        this.draw();
      }
    }

    // A new filter ends the exception for the rows named by a link.
    filter(act) {
      this.rows.named.clear();
      this.change(act);
    }

    limit(order) {
      this.filter(() => { this.rows.limit = order && new Set(order); });
    }

    change(act) {
      act();
      this.draw();
      clearTimeout(this.writing);
      this.writing = setTimeout(() => this.writeAddress(), ADDRESS_DELAY_MS);
    }

    writeAddress() {
      if (this.writing) {
        clearTimeout(this.writing);
        this.writing = null;
        page.state.set(this.element.dataset.state, TableAddress.pack(this.rows));
      }
    }

    draw() {
      const { rows, table } = this;
      rows.draw();
      table.classList.toggle("sorted", rows.sorted !== null);
      rows.all.forEach((item) => item.opener?.setAttribute("aria-expanded", String(item.isOpen)));
      rows.all.filter(({ opened }) => opened && !opened.hidden).forEach(({ opened }) => {
        opened.dispatchEvent(new CustomEvent("opened", { bubbles: true }));
      });
      this.tools?.update();
      this.titles?.update(rows.sorted);
      this.drawNothing();
      const order = rows.shown.map((item) => item.number);
      table.dispatchEvent(new CustomEvent("rows", { bubbles: true, detail: { order } }));
    }

    drawNothing() {
      this.nothing?.remove();
      this.nothing = null;
      if (this.rows.shown.length === 0 && this.rows.items.length) {
        this.nothing = page.make("tbody", { class: "nothing" }, TableTools.makeNothing(this.rows, this.quietWord, this.acts));
        this.table.append(this.nothing);
      }
    }

    // Numbers are first sorted downwards, words upwards; then the reverse; then unsorted.
    sortBy(column) {
      const { rows } = this;
      const isFirstDown = rows.keys(column).isNumeric;
      const isSame = rows.sorted?.column === column;
      const isBack = isSame && rows.sorted.isDescending !== isFirstDown;
      this.change(() => { rows.sorted = isBack ? null : { column, isDescending: isSame ? !isFirstDown : isFirstDown }; });
    }

    open(item, isOpen) {
      this.change(() => { item.isOpen = isOpen; });
    }

    openAll() {
      this.filter(() => {
        this.rows.showsQuiet = true;
        this.rows.all.forEach((item) => { item.isOpen = item.opened !== null; });
      });
    }

    reveal(target) {
      const item = this.rows.owners.get([...this.rows.owners.keys()].find((row) => row.contains(target)));
      if (item) {
        const own = item.isHeading ? this.rows.items.filter((one) => one.heading === item) : [item];
        this.rows.sorted = item.isHeading ? null : this.rows.sorted;
        own.forEach((one) => this.rows.named.add(one.number));
        item.isOpen ||= Boolean(item.opened?.contains(target));
        this.draw();
      }
    }

    choose(number) {
      const item = this.rows.byNumber.get(number);
      if (item) {
        this.reveal(item.row);
        this.mark(item);
      }
    }

    // The current row is marked, and takes the focus of the Tab key.
    mark(item) {
      this.current?.row.removeAttribute("aria-current");
      this.current?.row.setAttribute("tabindex", "-1");
      this.current = item;
      item?.row.setAttribute("aria-current", "true");
      item?.row.setAttribute("tabindex", "0");
      item?.row.scrollIntoView({ block: "nearest" });
    }

    focus(item) {
      this.mark(item);
      item?.row.focus({ preventScroll: true });
    }

    point(item) {
      if (item !== this.pointed) {
        const tell = (one, on) => one && this.table.dispatchEvent(new CustomEvent("row", { bubbles: true, detail: { number: one.number, on } }));
        tell(this.pointed, false);
        this.pointed = item;
        tell(item, true);
      }
    }

    // The arrow keys continue from a row that a link focused.
    onFocus(event, item) {
      this.point(item);
      if (event.target === item?.row && item !== this.current) {
        this.mark(item);
      }
    }

    onClick(event, item) {
      const isControl = event.target.closest("a, button, summary, input, select, label, .opened");
      if (item?.opened && !isControl && String(getSelection()) === "") {
        this.open(item, !item.isOpen);
      }
    }

    onKey(event, item) {
      const moves = { ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1) };
      if (event.target === item?.row && event.key in moves) {
        moves[event.key]();
        event.preventDefault();
      }
    }

    // The next visible row; initially the first one in view.
    step(by) {
      const { shown } = this.rows;
      const at = shown.indexOf(this.current);
      const top = parseFloat(getComputedStyle(page.root).scrollPaddingTop) || 0;
      const first = shown.findIndex((item) => item.row.getBoundingClientRect().top >= top);
      const next = at < 0 ? Math.max(0, first) : Math.min(shown.length - 1, Math.max(0, at + by));
      this.focus(shown[next]);
    }

    hide(item) {
      const { shown } = this.rows;
      const place = shown.indexOf(item);
      this.rows.named.delete(item.number);
      this.change(() => this.rows.hidden.add(item.number));
      this.focus(this.rows.shown[Math.min(place, this.rows.shown.length - 1)]);
      // If no row is left, the focus goes to the button that restores them.
      this.nothing?.querySelector("button")?.focus();
    }

    write(format, items = this.rows.shown) {
      return TableCopy.formats[format](TableCopy.read(this.rows, this.title, items));
    }

    save(format) {
      const type = { csv: "text/csv;charset=utf-8", json: "application/json" }[format];
      const name = `schedperf-${this.element.dataset.state.slice(2)}.${format}`;
      page.save(this.write(format), name, type);
      page.say(`${name} saved`);
    }
  }

  page.attach((main) => {
    main.querySelectorAll(".table[data-state]").forEach((element) => {
      const table = new LiveTable(element);
      byElement.set(element, table);
      page.state.on(element.dataset.state, (text) => table.restore(text));
      tables.push(table);
    });
  });
  page.settle(() => tables.forEach((table) => table.writeAddress()));

  // The live table of a ".table" element, undefined where there is none.
  return { of: (element) => byElement.get(element) };
})();

// The whole of a shortened text is shown below the pointer.
document.addEventListener("pointerover", ({ target }) => {
  const clip = target.closest?.(".clip");
  if (clip && clip.scrollHeight > clip.clientHeight && !clip.title) {
    clip.title = clip.textContent;
  }
});

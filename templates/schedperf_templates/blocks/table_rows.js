// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The rows of one table as a reader sees them: which rows, and in which order.
// Their texts are untrusted: they are compared and moved, and never become markup.
const TableRows = (() => {
  // How the report writes missing values.
  const MISSING = new Set(["", "-", "?"]);
  const NUMBER = /^[<>~\u2248]?\s*([+\-\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?)(.*)$/is;
  // A number is followed by its unit, the other end of an interval, or more words; versions, lists of
  // CPUs and addresses continue without a blank.
  const BEHIND = /^(?:$|[\s%\u00b1]|\.\.[^.]|\/?[a-z\u00b5\u03bc]+(?![\w.:-]))/i;
  const PREFIX = /^\s*(?:([nu\u00b5\u03bcm])(?:s|J|W)|([kKMGT]i?)(?:B|Hz|J|W)?)(?![\w])/;
  const FACTORS = {
    n: 1e-9, u: 1e-6, "\u00b5": 1e-6, "\u03bc": 1e-6, m: 1e-3, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12,
    Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
  };
  const collator = new Intl.Collator("en", { numeric: true });

  // The number at the start of a text, scaled by the prefix of its unit: 0.0016 for "1.6 ms"; or null.
  const parseNumber = (text) => {
    const [, digits, rest] = NUMBER.exec(text) ?? [];
    if (digits === undefined || !BEHIND.test(rest)) {
      return null;
    }
    const [, small, large] = PREFIX.exec(rest) ?? [];
    return Number(digits.replaceAll(",", "").replace("\u2212", "-")) * (FACTORS[small ?? large] ?? 1);
  };

  // Words, "several words" as a phrase, and -word to exclude rows.
  const parseSearch = (text) => {
    const found = [...text.toLowerCase().matchAll(/(-?)(?:"([^"]*)"?|(\S+))/g)];
    const terms = found.map(([, minus, phrase, word]) => ({ isExcluded: minus === "-", text: phrase ?? word }));
    return terms.filter((term) => term.text !== "" && term.text !== "-");
  };

  const textOf = (cell) => (cell.querySelector(":scope > span") ?? cell).textContent.trim();

  // One row with its notes and its details.
  class Item {
    constructor(row, heading) {
      this.row = row;
      this.number = Number(row.dataset.row);
      // A note without a row is treated as a heading.
      this.isHeading = row.matches(".heading, .note");
      this.isQuiet = row.matches(".quiet");
      this.isOpen = false;
      this.heading = this.isHeading ? null : heading;
      this.notes = [];
      this.opened = null;
    }

    get rows() {
      return [this.row, ...this.notes, ...(this.opened ? [this.opened] : [])];
    }

    get name() {
      return textOf(this.row.cells[0]);
    }

    get group() {
      return this.heading?.name ?? "";
    }

    get noteTexts() {
      return this.notes.map((note) => textOf(note.cells[0]));
    }

    get texts() {
      this.readTexts ??= [...this.row.cells].map(textOf);
      return this.readTexts;
    }

    get searched() {
      this.readSearched ??= [this.group, ...this.texts, ...this.noteTexts].join("\n").toLowerCase();
      return this.readSearched;
    }

    // The sort key of a cell from the report; null: sort by the text.
    said(column) {
      const { sort } = this.row.cells[column].dataset;
      return sort === undefined ? null : Number(sort.replace("inf", "Infinity"));
    }

    key(column) {
      const text = this.texts[column];
      const said = this.said(column);
      const isMissing = said === null ? MISSING.has(text) : Number.isNaN(said);
      return { item: this, text, said, number: said ?? parseNumber(text), isMissing };
    }
  }

  const readItems = (body) => {
    const items = [];
    let heading = null;
    for (const row of body.rows) {
      if (row.matches(".opened")) {
        items.at(-1).opened = row;
      } else if (row.matches(".note") && items.length) {
        items.at(-1).notes.push(row);
      } else {
        items.push(new Item(row, heading));
        heading = items.at(-1).isHeading ? items.at(-1) : heading;
      }
    }
    return items;
  };

  class Rows {
    constructor(table) {
      this.body = table.tBodies[0];
      this.head = table.tHead;
      this.columns = [...table.tHead.rows[0].cells].map((cell) => ({
        title: cell.textContent.trim(),
        isRight: cell.classList.contains("number"),
      }));
      this.all = readItems(this.body);
      this.items = this.all.filter((item) => !item.isHeading);
      this.headings = this.all.filter((item) => item.isHeading);
      this.owners = new Map(this.all.flatMap((item) => item.rows.map((row) => [row, item])));
      this.byNumber = new Map(this.all.map((item) => [item.number, item]));
      this.quiet = this.items.filter((item) => item.isQuiet);
      this.isAllQuiet = this.quiet.length > 0 && this.quiet.length === this.items.length;
      this.placed = this.all;
      this.shown = this.items;
      this.reset();
    }

    // The initial state.
    reset() {
      this.sorted = null;
      this.showsQuiet = false;
      this.find("");
      // Numbers of rows: put away by the reader, named by a link, chosen in a chart.
      this.hidden = new Set();
      this.named = new Set();
      this.limit = null;
      this.all.forEach((item) => { item.isOpen = false; });
    }

    find(text) {
      this.search = text;
      this.terms = parseSearch(text);
    }

    // A column is numeric if all cells with a value have a number.
    keys(column) {
      const keys = this.items.map((item) => item.key(column));
      const said = keys.filter((key) => !key.isMissing);
      return { keys, isNumeric: said.length > 0 && said.every((key) => key.number !== null) };
    }

    // Missing values are last in either direction; equal values keep the order of the report.
    inOrder() {
      if (!this.sorted) {
        return this.all;
      }
      const { keys, isNumeric } = this.keys(this.sorted.column);
      const sign = this.sorted.isDescending ? -1 : 1;
      const compare = isNumeric
        ? (a, b) => (a.number > b.number) - (a.number < b.number)
        : (a, b) => collator.compare(a.text, b.text);
      keys.sort((a, b) => a.isMissing - b.isMissing || (a.isMissing ? 0 : sign * compare(a, b)));
      return [...keys.map((key) => key.item), ...this.headings];
    }

    isPutAway(item) {
      return item.isQuiet && !this.isAllQuiet && !this.showsQuiet;
    }

    fitsSearch(item) {
      return this.terms.every((term) => item.searched.includes(term.text) !== term.isExcluded);
    }

    fits(item) {
      const isWanted = this.limit ? this.limit.has(item.number) : !this.isPutAway(item);
      return this.named.has(item.number) || (isWanted && !this.hidden.has(item.number) && this.fitsSearch(item));
    }

    // Hidden rows stay in the table, because they are printed on paper.
    draw() {
      const ordered = this.inOrder();
      this.shown = ordered.filter((item) => !item.isHeading && this.fits(item));
      const visible = new Set(this.shown);
      if (!this.sorted) {
        this.shown.forEach((item) => visible.add(item.heading));
      }
      this.all.forEach((item) => this.show(item, visible.has(item)));
      if (ordered.some((item, place) => item !== this.placed[place])) {
        this.placed = ordered;
        this.place(ordered.flatMap((item) => item.rows));
      }
    }

    // Moving rows outside of the page takes a third of the time, but loses the focus.
    place(ordered) {
      const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
      this.body.remove();
      this.body.append(...ordered);
      this.head.after(this.body);
      focused?.focus({ preventScroll: true });
    }

    show(item, isShown) {
      [item.row, ...item.notes].forEach((row) => { row.hidden = !isShown; });
      if (item.opened) {
        item.opened.hidden = !isShown || !item.isOpen;
      }
      // Sorted rows are not below their heading, so each shows it before its name.
      if (this.sorted && item.heading) {
        item.row.cells[0].querySelector(":scope > span").dataset.group = item.group;
      }
    }
  }

  return { Rows, parseNumber, MISSING };
})();

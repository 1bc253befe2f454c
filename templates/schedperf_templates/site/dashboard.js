// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Filters, whose state is in the address, and the keys of all pages.
(() => {
  const form = document.getElementById("filters");
  const fields = form ? [...form.elements].filter((one) => one.name) : [];
  const CHANGED = ["worse", "better", "moved", "lost"];

  const stateOf = (field) => (field.type === "checkbox" ? (field.checked ? "1" : "") : field.value);

  // Fragments without "=" are anchors.
  const readAddress = () => {
    const text = location.hash.slice(1);
    const wanted = new URLSearchParams(text.includes("=") ? text : "");
    for (const field of fields) {
      const value = wanted.get(field.name) ?? "";
      if (field.type === "checkbox") {
        field.checked = value === "1";
      } else {
        field.value = [...field.options].some((one) => one.value === value) ? value : "";
      }
    }
  };

  const writeAddress = () => {
    // In the order of the fields, so that each state has one address.
    const now = new URLSearchParams(fields.map((one) => [one.name, stateOf(one)]).filter(([, value]) => value));
    const text = now.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  };

  const show = (element, isShown) => element.toggleAttribute("data-hidden", !isShown);

  const fits = (data, wanted) =>
    ["tree", "machine", "metric"].every((name) => !wanted[name] || data[name] === undefined || data[name] === wanted[name]);

  const isChanged = (cell) => CHANGED.some((name) => cell.classList.contains(name));

  // Rows and columns that do not fit, or have no cell that is left, are hidden.
  const filterMatrix = (section, wanted) => {
    const columns = [...section.querySelectorAll("thead th")];
    const rows = [...section.querySelectorAll("tbody tr")];
    const columnFits = columns.map((one) => fits(one.dataset, wanted));
    const used = columns.map(() => false);
    let cells = 0;
    for (const row of rows) {
      const isFitting = fits(row.querySelector("th").dataset, wanted);
      let isUsed = false;
      [...row.querySelectorAll("td")].forEach((cell, index) => {
        const isLeft = isFitting && columnFits[index] && !cell.classList.contains("none") && (!wanted.changed || isChanged(cell));
        isUsed ||= isLeft;
        used[index] ||= isLeft;
        cell.toggleAttribute("data-blank", !isLeft);
        cells += isLeft;
      });
      show(row, isUsed);
    }
    columns.forEach((one, index) => {
      show(one, used[index]);
      rows.forEach((row) => show(row.querySelectorAll("td")[index], used[index]));
    });
    const isShown = fits(section.dataset, wanted) && cells > 0;
    show(section, isShown);
    return isShown ? cells : 0;
  };

  const apply = () => {
    const wanted = Object.fromEntries(fields.map((one) => [one.name, stateOf(one)]));
    let left = 0;
    for (const section of document.querySelectorAll("section.matrix")) {
      left += filterMatrix(section, wanted);
    }
    for (const row of document.querySelectorAll("table.open tbody tr")) {
      const { machines, metrics } = row.dataset;
      const isThere = (!wanted.machine || machines.split(" ").includes(wanted.machine)) && (!wanted.metric || metrics.split("|").includes(wanted.metric));
      show(row, isThere && fits(row.dataset, wanted));
    }
    for (const row of document.querySelectorAll("#rows tbody tr")) {
      const isLeft = !wanted.changed || row.hasAttribute("data-changed");
      show(row, isLeft);
      left += isLeft;
    }
    document.getElementById("count").textContent = fields.some(stateOf) ? `${left} result${left === 1 ? "" : "s"}` : "";
  };

  if (form) {
    form.hidden = false;
    readAddress();
    apply();
    form.addEventListener("change", () => {
      writeAddress();
      apply();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => {
      readAddress();
      apply();
    });
  }

  const dialog = document.getElementById("keys");
  const keys = [];
  self.site = {
    // A key that does something, with the words of the list of keys.
    press: (key, words, act) => keys.push({ key, words, act }),
  };
  const root = document.querySelector("nav a").getAttribute("href");
  const follow = (address) => () => location.assign(address);
  site.press("/", "search", () => document.getElementById("search").focus());
  site.press("t", "today", follow(root));
  site.press("m", "matrix", follow(`${root}#matrix`));
  site.press("d", "decisions", follow(root.replace("index.html", "decisions.html")));
  if (form) {
    site.press("c", "changed only", () => {
      form.elements.changed.click();
    });
    site.press("r", "remove all filters", () => {
      form.reset();
      form.dispatchEvent(new Event("change"));
    });
  }
  site.press("?", "list of keys", () => {
    dialog.querySelector("dl").replaceChildren(
      ...keys.flatMap(({ key, words }) => {
        const term = document.createElement("dt");
        const text = document.createElement("dd");
        term.appendChild(document.createElement("kbd")).textContent = key;
        text.textContent = words;
        return [term, text];
      }),
    );
    dialog.showModal();
  });
  dialog.querySelector("button").addEventListener("click", () => dialog.close());

  // The arrow keys go from cell to cell of the matrix.
  const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const move = (event) => {
    const cell = event.target.closest?.("td.cell");
    if (!cell || !(event.key in STEPS)) {
      return false;
    }
    const [down, right] = STEPS[event.key];
    const rows = [...cell.closest("table").querySelectorAll("tbody tr:not([data-hidden])")];
    let row = rows.indexOf(cell.parentElement);
    let column = cell.cellIndex;
    for (;;) {
      row += down;
      column += right;
      const next = rows[row]?.cells[column];
      if (!next || next.tagName !== "TD") {
        return true;
      }
      if (!next.hasAttribute("data-hidden") && next.querySelector("a")) {
        next.querySelector("a").focus();
        return true;
      }
    }
  };

  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || dialog.open) {
      return;
    }
    if (event.target.closest?.("input, select, textarea")) {
      return;
    }
    const found = keys.find(({ key }) => key === event.key);
    if (found) {
      found.act();
    }
    if (found || move(event)) {
      event.preventDefault();
    }
  });
})();

// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Finds rows in all tables of the page, also in what is folded or hidden.
(() => {
  // Rows that are listed; the line above them counts all.
  const MOST_LISTED = 12;
  const ROWS = ".table > .scroll > table > tbody > tr[data-row]:not(.heading, .note)";
  const TYPING_MS = 150;

  const input = document.getElementById("find");
  const list = document.getElementById("found");
  let typing = 0;

  const nameOf = (row) => (row.cells[0].querySelector(":scope > span") ?? row.cells[0]).textContent.trim();
  const tableOf = (row) => row.closest(".scroll").getAttribute("aria-label");
  // Names come before other cells.
  const rank = (row, words) => (words.every((word) => nameOf(row).toLowerCase().includes(word)) ? 0 : 1);
  const isShown = (row) => row.isConnected && row.checkVisibility();

  const search = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      return [];
    }
    const fits = (row) => words.every((word) => row.textContent.toLowerCase().includes(word));
    const parts = [document.querySelector("main"), ...page.later.contents()];
    const rows = parts.flatMap((part) => [...part.querySelectorAll(ROWS)]).filter(fits);
    return rows.sort((one, other) => rank(one, words) - rank(other, words));
  };

  const show = (row) => {
    close();
    page.later.bring(row);
    page.unfold(row);
    row.dispatchEvent(new CustomEvent("reveal", { bubbles: true }));
    page.markTarget(row);
    row.scrollIntoView({ block: "center", behavior: "instant" });
    page.focus(row);
    if (row.id) {
      page.name(row.id);
    }
  };

  const close = () => { list.hidden = true; };

  const listRows = (rows) => {
    const hidden = rows.filter((row) => !isShown(row)).length;
    const count = rows.length === 1 ? "1 row" : `${rows.length} rows`;
    const words = rows.length ? `${count}${hidden ? `, ${hidden} folded or hidden` : ""}` : "no row matches";
    const buttons = rows.slice(0, MOST_LISTED).map((row) => {
      const button = page.makeButton("", () => show(row));
      button.append(page.make("b", {}, nameOf(row)), page.make("small", {}, tableOf(row)));
      return button;
    });
    list.replaceChildren(page.make("p", { role: "status" }, words), ...buttons);
    list.hidden = false;
  };

  const find = () => {
    if (input.value.trim()) {
      listRows(search(input.value));
    } else {
      close();
    }
  };

  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(find, TYPING_MS);
  });
  input.parentElement.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "Escape") {
      close();
      input.focus();
    } else if (event.key === "Enter" && event.target === input) {
      clearTimeout(typing);
      const [first] = search(input.value);
      if (first) {
        show(first);
      } else {
        find();
      }
    } else if (event.key === "ArrowDown" && !list.hidden) {
      buttons[Math.min(at + 1, buttons.length - 1)]?.focus();
    } else if (event.key === "ArrowUp" && !list.hidden) {
      (at > 0 ? buttons[at - 1] : input).focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
  document.addEventListener("click", (event) => {
    if (!input.parentElement.contains(event.target)) {
      close();
    }
  });
  page.press("s", "find rows in the whole report", () => input.focus());
  input.parentElement.hidden = false;
})();

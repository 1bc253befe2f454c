// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Keeps the interval plots in step with their tables: same lines, same order, same row marked.
(() => {
  // Pixels that a hand moves without meaning to drag.
  const LEAST_DRAG = 5;
  const numberOf = (line) => Number(line.dataset.row);

  // The table is the one whose row a line leads to.
  const tableOf = (figure) => {
    const targets = [...figure.querySelectorAll(".lines a")].map((link) => link.hash.slice(1));
    const rows = targets.map((target) => document.getElementById(decodeURIComponent(target)));
    return rows.find(Boolean)?.closest("table");
  };

  const follow = (figure, table, lines) => {
    const list = figure.querySelector(".lines");
    // The details of a row may contain tables, which have events of their own.
    table.addEventListener("rows", ({ target, detail }) => {
      if (target !== table) {
        return;
      }
      const shown = detail.order.map((number) => lines.get(number)).filter(Boolean);
      const hidden = new Set(lines.values());
      shown.forEach((line) => hidden.delete(line));
      hidden.forEach((line) => { line.hidden = true; });
      shown.forEach((line) => { line.hidden = false; });
      // An element that is moved loses the focus.
      const focused = list.contains(document.activeElement) ? document.activeElement : null;
      list.append(...shown, ...hidden);
      focused?.focus({ preventScroll: true });
      // The table may have been opened from an address since, which limits it to others or to none.
      const note = figure.querySelector(".limited");
      note.hidden ||= shown.length > Number(note.dataset.picked);
    });
    table.addEventListener("row", ({ target, detail }) => {
      if (target === table) {
        lines.get(detail.number)?.classList.toggle("pointed", detail.on);
      }
    });
  };

  const point = (table, line, on) => {
    const row = [...table.tBodies[0].rows].find((one) => one.dataset.row === line.dataset.row);
    row?.classList.toggle("pointed", on);
  };

  // Selected lines limit the table and the plot until all are shown again.
  const makePicker = (figure, table) => {
    const note = figure.querySelector(".limited");
    const shown = () => [...figure.querySelectorAll(".lines > li:not([hidden])")];
    const mark = (picked) => {
      shown().forEach((line) => line.classList.toggle("picked", picked.includes(line)));
    };
    const limit = (picked) => {
      mark([]);
      const few = picked.length === 1 ? "1 selected line" : `${picked.length} selected lines`;
      note.querySelector("[role=status]").textContent = picked.length ? `Showing only ${few}, here and in the table.` : "";
      note.hidden = picked.length === 0;
      note.dataset.picked = picked.length;
      const order = picked.length ? picked.map(numberOf) : null;
      table.dispatchEvent(new CustomEvent("limit", { detail: { order } }));
    };
    const between = (one, other) => {
      const lines = shown();
      const places = [lines.indexOf(one), lines.indexOf(other)];
      return lines.slice(Math.min(...places), Math.max(...places) + 1);
    };
    note.querySelector("button").addEventListener("click", () => limit([]));
    return { shown, mark, limit, between };
  };

  // Ends the current drag, wherever the pointer is.
  let finish = null;
  addEventListener("pointerup", () => finish?.(true));
  addEventListener("pointercancel", () => finish?.(false));

  const drag = (list, picker) => {
    let from = null;
    let picked = [];
    const end = (isDone) => {
      finish = null;
      list.classList.remove("dragging");
      if (isDone && picked.length) {
        picker.limit(picked);
      } else {
        picker.mark([]);
      }
    };
    list.addEventListener("dragstart", (event) => event.preventDefault());
    list.addEventListener("pointerdown", (event) => {
      picked = [];
      // A finger that moves over the lines scrolls the page.
      if (event.button === 0 && event.pointerType !== "touch") {
        from = { line: event.target.closest(".lines > li"), y: event.clientY };
        finish = end;
      }
    });
    list.addEventListener("pointermove", (event) => {
      const line = event.target.closest(".lines > li");
      const isMeant = picked.length || Math.abs(event.clientY - from?.y) > LEAST_DRAG;
      if (finish === end && from.line && line && isMeant) {
        list.classList.add("dragging");
        picked = picker.between(from.line, line);
        picker.mark(picked);
      }
    });
    // The click that ends a drag is not meant for a link.
    list.addEventListener("click", (event) => {
      if (picked.length) {
        event.preventDefault();
        event.stopPropagation();
        picked = [];
      }
    }, true);
  };

  const walk = (list, picker) => {
    let from = null;
    let picked = [];
    const step = (event, line) => {
      const lines = picker.shown();
      const next = lines[lines.indexOf(line) + (event.key === "ArrowDown" ? 1 : -1)] ?? line;
      from = event.shiftKey ? (from ?? line) : null;
      picked = from ? picker.between(from, next) : [];
      picker.mark(picked);
      next.querySelector("a").focus();
    };
    list.addEventListener("keydown", (event) => {
      const line = event.target.closest(".lines > li");
      if (event.key === "Escape") {
        picker.limit([]);
      } else if (line && ["ArrowDown", "ArrowUp"].includes(event.key)) {
        event.preventDefault();
        step(event, line);
      }
    });
    // Releasing Shift completes the selection.
    list.addEventListener("keyup", (event) => {
      if (event.key === "Shift" && picked.length) {
        picker.limit(picked);
        from = null;
        picked = [];
      }
    });
  };

  const lead = (list, table) => {
    for (const [kind, on] of [["pointerover", true], ["pointerout", false], ["focusin", true], ["focusout", false]]) {
      list.addEventListener(kind, (event) => {
        const line = event.target.closest(".lines > li");
        if (line) {
          point(table, line, on);
        }
      });
    }
    list.addEventListener("click", (event) => {
      const line = event.target.closest(".lines > li");
      if (line) {
        table.dispatchEvent(new CustomEvent("choose", { detail: { number: numberOf(line) } }));
      }
    });
  };

  page.attach((main) => {
    for (const figure of main.querySelectorAll("figure.intervals")) {
      const table = tableOf(figure);
      if (!table) {
        continue;
      }
      const list = figure.querySelector(".lines");
      const lines = new Map([...list.children].map((line) => [numberOf(line), line]));
      const picker = makePicker(figure, table);
      follow(figure, table, lines);
      drag(list, picker);
      walk(list, picker);
      lead(list, table);
      figure.querySelector(".hint").hidden = lines.size < 2;
    }
  });
})();

// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Shows the numbers of a shaded cell: the one under the pointer, or selected with the arrow keys.
const matrices = (() => {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

  const within = (place, count) => Math.min(Math.max(place, 0), count - 1);

  // The text of a cell: its title if it shows a number; otherwise from the data of the page.
  const reader = (figure, rows, onArrival) => {
    let said = null;
    if (!figure.classList.contains("written")) {
      page.island(figure).then((data) => {
        said = data.said;
        onArrival();
      });
    }
    return (row, column) => said?.[row]?.[column] ?? rows[row][column].title;
  };

  const attach = (figure) => {
    const rows = [...figure.querySelectorAll(":scope > .scroll tbody tr")]
      .map((row) => [...row.querySelectorAll("td")]);
    const status = figure.querySelector(".matrix-said");
    const region = figure.querySelector(".scroll");
    const hint = figure.classList.contains("written") ? "" : "Point at a cell, or move with the arrow keys, to show its value here.";
    let here = null;
    const read = reader(figure, rows, () => here && show(here.row, here.column));

    const show = (row, column) => {
      here?.cell.classList.remove("here");
      here = { row, column, cell: rows[row][column] };
      here.cell.classList.add("here");
      status.textContent = read(row, column);
    };
    const leave = () => {
      here?.cell.classList.remove("here");
      here = null;
      status.textContent = hint;
    };
    leave();
    status.hidden = false;
    region.addEventListener("pointerover", (event) => {
      const cell = event.target.closest("td");
      const row = rows.findIndex((cells) => cells.includes(cell));
      if (row >= 0) {
        show(row, rows[row].indexOf(cell));
      }
    });
    region.addEventListener("pointerleave", leave);
    region.addEventListener("blur", leave);
    region.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      if (!move || event.ctrlKey || event.altKey || event.metaKey) {
        return;
      }
      event.preventDefault();
      const row = here ? within(here.row + move[0], rows.length) : 0;
      show(row, here ? within(here.column + move[1], rows[row].length) : 0);
      here.cell.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  };
  return { attach };
})();
page.attach((main) => main.querySelectorAll("figure.matrix").forEach(matrices.attach));

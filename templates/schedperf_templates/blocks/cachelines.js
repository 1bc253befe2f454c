// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Drawings of cache lines: shows the facts of the variable under the pointer, and moves between
// variables with the arrow keys. Without scripting the same facts are the title of each variable.
(() => {
  const nameOf = (occupant) => occupant.dataset.name || occupant.querySelector("b").textContent;

  const show = (figure, occupant) => {
    const detail = figure.querySelector(".line-detail");
    const place = occupant.closest(".line-row").querySelector(".line-place").textContent.trim();
    const name = document.createElement("b");
    name.textContent = nameOf(occupant);
    detail.replaceChildren(name, ` (${place.replace(/\s+/g, " ")}): ${occupant.title}`);
    detail.hidden = false;
    for (const one of figure.querySelectorAll(".occupant")) {
      one.classList.toggle("alike", one.classList.contains("entry") && nameOf(one) === name.textContent);
    }
  };

  // How far one box is ahead of another in a direction, and their distance across that direction.
  const apart = (from, to, { x, y }) => {
    const middle = (box) => (x ? box.left + box.right : box.top + box.bottom) / 2;
    const ends = (box) => (x ? [box.top, box.bottom] : [box.left, box.right]);
    const [[top, bottom], [above, below]] = [ends(from), ends(to)];
    return { ahead: (middle(to) - middle(from)) * (x + y), aside: Math.max(0, above - bottom, top - below) };
  };

  // The nearest variable in a direction. Those in line come before nearer ones.
  const ASIDE = 1e6;
  const next = (figure, from, way) => {
    const start = from.getBoundingClientRect();
    let best = null;
    for (const one of figure.querySelectorAll(".occupant")) {
      const { ahead, aside } = apart(start, one.getBoundingClientRect(), way);
      const far = ahead + aside + (aside ? ASIDE : 0);
      if (ahead > 1 && (!best || far < best.far)) {
        best = { one, far };
      }
    }
    return best?.one;
  };

  const WAYS = new Map([
    ["ArrowLeft", { x: -1, y: 0 }], ["ArrowRight", { x: 1, y: 0 }],
    ["ArrowUp", { x: 0, y: -1 }], ["ArrowDown", { x: 0, y: 1 }],
  ]);

  const walk = (figure, event) => {
    const from = event.target.closest(".occupant");
    const way = WAYS.get(event.key);
    if (!from || !way || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    const to = next(figure, from, way);
    if (to) {
      from.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    }
  };

  const attach = (figure) => {
    const occupants = figure.querySelectorAll(".occupant");
    if (!occupants.length) {
      return;
    }
    // The Tab key stops once, at the first hot variable.
    (figure.querySelector(".occupant.hot") ?? occupants[0]).tabIndex = 0;
    const told = (event) => {
      const occupant = event.target.closest(".occupant");
      if (occupant) {
        show(figure, occupant);
      }
    };
    figure.addEventListener("pointerover", told);
    figure.addEventListener("focusin", told);
    figure.addEventListener("keydown", (event) => walk(figure, event));
  };

  page.attach((main) => main.querySelectorAll("figure.cachelines").forEach(attach));
})();

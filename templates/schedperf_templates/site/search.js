// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Search in commits, benchmarks and machines; the index is loaded when the field gets the focus.
(() => {
  const { index, root } = document.currentScript.dataset;
  const MOST = 12;
  const field = document.getElementById("search");
  const list = document.getElementById("found");
  let isLoading = false;
  let current = -1;

  const load = () => {
    if (!isLoading) {
      isLoading = true;
      const script = document.createElement("script");
      script.src = index;
      script.addEventListener("load", () => find());
      document.head.append(script);
    }
  };

  const draw = ({ kind, text, address }) => {
    const item = document.createElement("li");
    const link = item.appendChild(document.createElement("a"));
    link.href = root + address;
    link.textContent = `${text} `;
    link.appendChild(document.createElement("small")).textContent = kind;
    return item;
  };

  // Words are found at the beginnings of words: "1" in "time 1", and not in "m01".
  const begins = (whole, word) => {
    for (let at = whole.indexOf(word); at >= 0; at = whole.indexOf(word, at + 1)) {
      if (at === 0 || !/[a-z0-9]/.test(whole[at - 1])) {
        return true;
      }
    }
    return false;
  };

  const find = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    current = -1;
    if (words.length === 0 || !self.searchIndex) {
      list.hidden = true;
      return;
    }
    const fitting = self.searchIndex.filter(({ text, kind }) => {
      const whole = `${text} ${kind}`.toLowerCase();
      return words.every((word) => begins(whole, word));
    });
    const items = fitting.slice(0, MOST).map(draw);
    if (fitting.length === 0 || fitting.length > MOST) {
      const item = document.createElement("li");
      item.className = "muted";
      item.textContent = fitting.length === 0 ? "nothing found" : `and ${fitting.length - MOST} more`;
      items.push(item);
    }
    list.replaceChildren(...items);
    list.hidden = false;
  };

  const choose = (step) => {
    const links = [...list.querySelectorAll("a")];
    if (list.hidden || links.length === 0) {
      return;
    }
    current = (current + step + links.length) % links.length;
    links.forEach((link, number) => (number === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    links[current].scrollIntoView({ block: "nearest" });
  };

  field.closest("search").hidden = false;
  field.addEventListener("focus", load);
  field.addEventListener("input", find);
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      choose(event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
    } else if (event.key === "Enter") {
      const links = list.querySelectorAll("a");
      links[Math.max(current, 0)]?.click();
    } else if (event.key === "Escape") {
      field.value = "";
      find();
      field.blur();
    }
  });
  addEventListener("click", (event) => {
    if (!event.target.closest("search")) {
      list.hidden = true;
    }
  });
})();

// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Folded parts: "details.later". Their content is text in a "noscript" element, or in what is folded
// itself a ".rest", and becomes part of the page when it is first needed.
page.later = (() => {
  // Content that is not part of the page yet: its noscript element, and after its first use
  // the element's content as a fragment.
  const waiting = new Map();
  const owners = new WeakMap();

  const keep = (details, fragment) => {
    owners.set(fragment, details);
    waiting.set(details, { noscript: null, fragment });
  };

  // Takes the content of folded parts out of the page, or out of what was folded around them.
  const hold = (root) => {
    for (const details of root.querySelectorAll("details.later")) {
      const noscript = details.querySelector(":scope > noscript");
      const rest = details.querySelector(":scope > .rest");
      if (noscript) {
        waiting.set(details, { noscript, fragment: null });
      } else if (rest && !details.open) {
        const fragment = new DocumentFragment();
        fragment.append(rest);
        keep(details, fragment);
      }
    }
  };

  // The content of a folded part, which stays outside of the page.
  const look = (details) => {
    const held = waiting.get(details);
    if (!held.fragment) {
      const template = document.createElement("template");
      // The templates of the report have escaped every text in it.
      template.innerHTML = held.noscript.textContent;
      keep(details, template.content);
      held.noscript.remove();
      hold(template.content);
    }
    return waiting.get(details).fragment;
  };

  // Shows all of a section: its folded tables, and what its rows open to.
  const openAll = (section) => {
    for (let folded = section.querySelector("details:not([open])"); folded; folded = section.querySelector("details:not([open])")) {
      fill(folded);
      folded.open = true;
    }
    section.querySelectorAll(".table").forEach((table) => table.dispatchEvent(new CustomEvent("open-all")));
  };
  const makeOpenAll = (section) => page.makeButton("Open all tables and rows of this section", (event) => {
    openAll(section);
    event.target.remove();
  }, { class: "open-all" });

  const fill = (details) => {
    if (waiting.has(details)) {
      const fragment = look(details);
      waiting.delete(details);
      if (details.matches("section > .unchanged") && fragment.querySelector("details, tr.opened")) {
        details.append(makeOpenAll(details));
      }
      details.append(fragment);
      if (details.isConnected) {
        page.draw(details);
      }
    }
  };

  // Makes an element part of the page: fills everything that is folded around it.
  const bring = (element) => {
    const owner = owners.get(element.getRootNode());
    if (owner) {
      bring(owner);
      fill(owner);
    }
  };

  // The first element outside of the page that fits; text is what its folded part must contain.
  const find = (text, pick) => {
    for (const details of waiting.keys()) {
      const { noscript } = waiting.get(details);
      if (!noscript || noscript.textContent.includes(text)) {
        const found = pick(look(details));
        if (found) {
          bring(found);
          return found;
        }
      }
    }
    return null;
  };

  // Fill a part before it is visible, also if a script or a link opens it.
  document.addEventListener("toggle", (event) => {
    if (event.target.open) {
      fill(event.target);
    }
  }, true);

  return {
    hold, fill,
    bring,
    // Fills all folded parts, or those that fit a selector.
    fillAll(selector = "details") {
      for (const details of waiting.keys()) {
        look(details);
        if (details.matches(selector)) {
          bring(details);
          fill(details);
        }
      }
    },
    byId: (id) => find("", (content) => content.getElementById(id)),
    byState: (name) => find(`data-state="${name}"`, (content) => [...content.querySelectorAll("[data-state]")].find((one) => one.dataset.state === name)),
    first: (selector) => find("", (content) => content.querySelector(selector)),
    // The contents of all folded parts, outside of the page.
    contents: () => {
      for (const details of waiting.keys()) {
        look(details);
      }
      return [...waiting.values()].map(({ fragment }) => fragment);
    },
    waiting: () => waiting.size,
  };
})();

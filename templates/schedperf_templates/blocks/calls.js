// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Callers and callees of the function of a table row, drawn when the row is opened. Their data are
// those of the flame graph of the section. Names are untrusted text and never become markup.
(() => {
  const { make, makeButton } = page;

  const write = (share) => (share !== 0 && share < 0.01 ? share.toFixed(3) : share.toFixed(2));
  const writeChange = (change) => (change < 0 ? "-" : "+") + write(Math.abs(change));

  // The row of a function in the same table.
  const rowOf = (calls, symbol) => {
    const body = calls.closest(".table").querySelector(":scope > .scroll > table > tbody");
    const nameOf = (row) => (row.cells[0].querySelector(":scope > span") ?? row.cells[0]).textContent.trim();
    return [...body.rows].find((row) => row.dataset.row && nameOf(row) === symbol);
  };

  const goToRow = (row) => {
    row.dispatchEvent(new CustomEvent("choose", { bubbles: true, detail: { number: Number(row.dataset.row) } }));
    row.querySelector(".opens[aria-expanded='false']")?.click();
    row.scrollIntoView({ block: "center", behavior: "instant" });
    row.focus({ preventScroll: true });
  };

  const drawRow = (calls, { symbol, base, new: other }) => {
    const target = rowOf(calls, symbol);
    const name = make("th", { scope: "row", class: "code" });
    name.append(target ? makeButton(symbol, () => goToRow(target), { title: "go to the row of this function" }) : symbol);
    const texts = [write(base), write(other), writeChange(other - base)];
    return make("tr", {}, name, ...texts.map((text) => make("td", { class: "number" }, text)));
  };

  const drawTable = (calls, words, some, more) => {
    const heads = ["function", "base %", "new %", "change, pp"];
    const head = make("tr", {}, ...heads.map((text, column) => make("th", { scope: "col", class: column ? "number" : "" }, text)));
    const caption = `${words}${some.length ? "" : ": none sampled"}${more ? ` (${more} smaller not listed)` : ""}`;
    if (!some.length) {
      return make("p", { class: "muted" }, caption);
    }
    return make("table", {},
      make("caption", {}, make("span", {}, caption)),
      make("thead", {}, head),
      make("tbody", {}, ...some.map((one) => drawRow(calls, one))));
  };

  const draw = async (calls) => {
    const [number, event, place] = calls.dataset.at.split(" ");
    const figure = calls.closest("section").querySelectorAll("figure.flames")[Number(number)];
    const found = (await page.island(figure)).events[Number(event)].calls[Number(place)];
    if (calls.hasChildNodes()) {
      return;
    }
    const find = () => figure.dispatchEvent(new CustomEvent("find", { detail: { event, find: `=${found.symbol}` } }));
    calls.append(
      make("div", { class: "calls-tables" },
        drawTable(calls, `Callers of ${found.symbol}, on all call paths`, found.callers, found.more_callers),
        drawTable(calls, `Callees of ${found.symbol}, on all call paths`, found.callees, found.more_callees)),
      make("p", {}, makeButton("Find this function in the flame graph", find, { class: "chip" }),
        make("span", { class: "muted" }, " % of total time, including callees; changes were not tested")),
    );
  };

  document.addEventListener("opened", ({ target }) => target.querySelectorAll(".calls:empty").forEach(draw));
})();

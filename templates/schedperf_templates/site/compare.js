// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Choose two nights of a series, whose names are in the address; download the table as CSV or JSON.
(() => {
  const table = document.getElementById("table");
  const output = document.getElementById("compared");
  const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.night, row]));
  const chosen = [];

  const words = (row) => [...row.cells].map((cell) => cell.textContent.trim());
  const valueOf = (row) => {
    const cell = row.querySelector("[data-change]");
    return cell === null ? null : Number(cell.dataset.change);
  };
  const signed = (number, suffix) => `${number < 0 ? "-" : "+"}${Math.abs(number).toFixed(1)}${suffix}`;

  // The difference of two nights; its error is that of single nights of the series, which the page has.
  const difference = (first, second) => {
    const [before, after] = [valueOf(first), valueOf(second)];
    if (before === null || after === null) {
      return "one of them has no result";
    }
    const isLog = output.dataset.log === "yes" && document.getElementById("timeline").dataset.paired === "yes";
    const half = output.dataset.half === "" ? null : Number(output.dataset.half);
    if (!isLog) {
      return `difference ${(after - before).toPrecision(3)} ${output.dataset.unit}${half === null || output.dataset.log === "yes" ? "" : ` +-${half.toPrecision(2)}`}`;
    }
    const log = Math.log1p(after) - Math.log1p(before);
    const change = (number) => signed(100 * Math.expm1(number), "%");
    const interval = half === null ? "" : ` [${change(log - half)}, ${change(log + half)}]`;
    const isApart = half !== null && Math.abs(log) > half;
    return `change ${change(log)}${interval}${half === null ? "" : isApart ? ", significant" : ", not significant"} (95% CI from the noise between nights)`;
  };

  const draw = () => {
    for (const [night, row] of rows) {
      if (chosen.includes(night)) {
        row.setAttribute("aria-selected", "true");
      } else {
        row.removeAttribute("aria-selected");
      }
      row.querySelector("input").checked = chosen.includes(night);
    }
    output.hidden = chosen.length === 0;
    if (chosen.length === 1) {
      output.textContent = `${chosen[0]} chosen; choose another night to compare them`;
    } else if (chosen.length === 2) {
      const [first, second] = [...chosen].sort();
      const kernels = [first, second].map((one) => rows.get(one).querySelector("code").textContent);
      output.textContent = `${first} (${kernels[0]}) to ${second} (${kernels[1]}): ${difference(rows.get(first), rows.get(second))}. `;
      output.appendChild(document.createElement("code")).textContent = `schedperf history diff ${first} ${second} --nights 1`;
    }
  };

  const write = () => {
    const text = chosen.length ? `#nights=${chosen.join(",")}` : location.pathname + location.search;
    history.replaceState(null, "", text);
  };

  const choose = (night) => {
    if (chosen.includes(night)) {
      chosen.splice(chosen.indexOf(night), 1);
    } else {
      chosen.push(night);
      chosen.splice(0, chosen.length - 2);
    }
    write();
    draw();
  };

  const read = () => {
    const wanted = new URLSearchParams(location.hash.slice(1)).get("nights") ?? "";
    chosen.splice(0, 2, ...wanted.split(",").filter((night) => rows.has(night)).slice(0, 2));
    draw();
  };

  const addBoxes = () => {
    const head = document.createElement("th");
    head.scope = "col";
    head.textContent = "compare";
    table.tHead.rows[0].prepend(head);
    for (const [night, row] of rows) {
      const box = document.createElement("input");
      box.type = "checkbox";
      box.setAttribute("aria-label", `compare ${night}`);
      box.addEventListener("change", () => choose(night));
      row.prepend(document.createElement("td"));
      row.cells[0].append(box);
    }
  };

  const offer = (id, type, text) => {
    document.getElementById(id).href = URL.createObjectURL(new Blob([text], { type }));
  };

  const download = () => {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const all = [...rows.values()];
    const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = all.map(words).map((cells) => (cells.length < names.length ? [cells[0], cells[1], "", "", "", "", "", cells.at(-1)] : cells));
    offer("csv", "text/csv", [names, ...lines].map((cells) => cells.map(quote).join(",")).join("\n") + "\n");
    const numbers = all.map((row) => {
      const data = row.querySelector("[data-change]")?.dataset ?? {};
      const number = (text) => (text === undefined ? null : Number(text));
      return {
        night: row.dataset.night,
        kernel: row.querySelector("code").textContent,
        change: number(data.change),
        ci_low: number(data.low),
        ci_high: number(data.high),
        verdict: row.cells[row.cells.length - 1].textContent,
      };
    });
    offer("json", "application/json", JSON.stringify(numbers, null, 1) + "\n");
    document.querySelector(".downloads").hidden = false;
  };

  download();
  addBoxes();
  self.site.compare = (night) => rows.has(night) && choose(night);
  site.press("x", "compare no nights", () => {
    chosen.splice(0, 2);
    write();
    draw();
  });
  addEventListener("hashchange", read);
  read();
})();

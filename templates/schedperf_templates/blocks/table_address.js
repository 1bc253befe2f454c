// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The state of a table as a few letters in the address.
const TableAddress = (() => {
  // "s3d.a.o4-7.x2.l4-5.qwords": sorted by column 3 downwards, quiet rows shown, rows 4 and 7 open,
  // row 2 hidden, rows 4 and 5 chosen in a chart, and the search, which is last because it may
  // contain anything.
  const pack = (rows) => {
    const numbers = (some) => [...some].sort((a, b) => a - b).join("-");
    const open = rows.all.filter((item) => item.isOpen).map((item) => item.number);
    const parts = [
      rows.sorted && `s${rows.sorted.column}${rows.sorted.isDescending ? "d" : ""}`,
      rows.showsQuiet && "a",
      open.length && `o${numbers(open)}`,
      rows.hidden.size && `x${numbers(rows.hidden)}`,
      rows.limit && `l${numbers(rows.limit)}`,
      rows.search.trim() && `q${rows.search.trim()}`,
    ];
    return parts.filter(Boolean).join(".") || null;
  };

  // Addresses are untrusted: settings that do not fit this table are ignored.
  const unpack = (rows, text) => {
    const [, settings, search] = /^([^q]*)(?:q(.*))?$/s.exec(text ?? "");
    const items = (numbers) => numbers.split("-").map((one) => rows.byNumber.get(Number(one || NaN))).filter(Boolean);
    const readers = {
      s: (rest) => {
        const [, column, down] = /^(\d+)(d?)$/.exec(rest) ?? [];
        rows.sorted = Number(column) < rows.columns.length ? { column: Number(column), isDescending: down === "d" } : null;
      },
      a: () => { rows.showsQuiet = true; },
      o: (rest) => items(rest).forEach((item) => { item.isOpen = item.opened !== null; }),
      x: (rest) => items(rest).filter((item) => !item.isHeading).forEach((item) => rows.hidden.add(item.number)),
      // Rows that this table does not have are ignored.
      l: (rest) => {
        const chosen = items(rest).map((item) => item.number);
        rows.limit = chosen.length ? new Set(chosen) : null;
      },
    };
    rows.reset();
    settings.split(".").forEach((setting) => readers[setting[0]]?.(setting.slice(1)));
    rows.find(search ?? "");
  };

  return { pack, unpack };
})();

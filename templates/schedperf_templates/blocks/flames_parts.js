// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The numbers of a part of the samples: one node, CPU or command. Derived numbers, that is times with
// callees and the bounds of intervals, are computed here.
const FlameParts = (() => {
  // The time of each frame with its callees; a frame comes after its caller.
  const sumCalled = (parent, own) => {
    const sums = own.map((value) => value ?? 0);
    for (let frame = sums.length - 1; frame > 0; frame -= 1) {
      sums[parent[frame]] += sums[frame];
    }
    return sums;
  };

  const addEnds = (changes) => {
    const end = (sign) => changes.margin.map((margin, place) => (margin === null ? null : changes.new[place] - changes.base[place] + sign * margin));
    return changes.margin ? { ...changes, low: end(-1), high: end(1) } : changes;
  };

  const restore = (parent, measure) => {
    const sides = Object.entries(measure.self).map(([side, own]) => [side, sumCalled(parent, own)]);
    return {
      ...measure,
      inclusive: addEnds({ ...Object.fromEntries(sides), ...measure.inclusive }),
      functions: addEnds(measure.functions),
    };
  };

  const nameOf = ({ kind, name }) => ({ node: `node ${name}`, cpu: `CPU ${name}`, comm: name })[kind];
  const keyOf = ({ kind, name }) => `${kind}:${name}`;

  // The same tree with the numbers of a part; unchanged if there is no such part.
  const choose = (event, key) => {
    const part = (event.parts ?? []).find((one) => keyOf(one) === key);
    const measures = part?.measures.map((measure) => restore(event.parent, measure));
    return { name: part ? nameOf(part) : "", data: measures ? { ...event, measures } : event };
  };

  return { choose, keyOf, nameOf, sumCalled };
})();

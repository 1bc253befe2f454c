// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Found frames and their callers alone, each found frame at least as wide as its name. Callers with
// one callee share a row, so that all of it fits a window. Widths are not times here.
const FlameFit = (() => {
  // If there are more frames, only this many of the largest are tried.
  const MOST_TRIED = 100;

  const childrenOf = (tree, shown, frame) => tree.children[frame].filter((child) => shown.has(child));

  // The width in pixels that frames with all their callees need.
  const measure = (tree, focus, chosen, labelOf) => {
    const shown = tree.withCallers([...chosen, focus]);
    const needs = new Map();
    const add = (frame) => {
      const called = childrenOf(tree, shown, frame).reduce((sum, child) => sum + add(child), 0);
      needs.set(frame, Math.max(chosen.has(frame) ? labelOf(frame) : 0, called));
      return needs.get(frame);
    };
    add(focus);
    return { shown, needs };
  };

  // The largest frame of each text, then the largest of all that there is room for.
  const choose = (tree, focus, groups, room, labelOf) => {
    const isWithin = (frame) => frame === focus || tree.callersOf(frame).includes(focus) || focus === 0;
    const ordered = groups.map((group) => tree.largestFirst([...group].filter(isWithin)));
    const chosen = new Set(ordered.filter((some) => some.length).map(([first]) => first));
    const others = new Set(ordered.flatMap((some) => some.slice(0, MOST_TRIED)));
    for (const frame of tree.largestFirst([...others].filter((one) => !chosen.has(one))).slice(0, MOST_TRIED)) {
      const more = new Set([...chosen, frame]);
      if (measure(tree, focus, more, labelOf).needs.get(focus) <= room) {
        chosen.add(frame);
      }
    }
    return chosen;
  };

  // Widths in proportion to the times, but none below what its frame needs.
  const share = (frames, width, timeOf, needOf) => {
    const fixed = new Map();
    for (;;) {
      const rest = frames.filter((frame) => !fixed.has(frame));
      const room = width - [...fixed.values()].reduce((sum, one) => sum + one, 0);
      const times = rest.reduce((sum, frame) => sum + timeOf(frame), 0);
      const part = (frame) => (times > 0 ? (room * timeOf(frame)) / times : room / rest.length);
      const short = rest.filter((frame) => part(frame) < needOf(frame));
      if (!short.length) {
        rest.forEach((frame) => fixed.set(frame, part(frame)));
        return fixed;
      }
      short.forEach((frame) => fixed.set(frame, needOf(frame)));
    }
  };

  // The chain from a frame on of frames that were not found and call only one. The caller of a
  // found frame has a row of its own.
  const chainFrom = (frame, isChosen, calledBy) => {
    const chain = [];
    for (let one = frame; !isChosen(one) && !calledBy(one).some(isChosen);) {
      chain.push(one);
      const called = calledBy(one);
      if (called.length !== 1) {
        break;
      }
      [one] = called;
    }
    return chain.length > 1 ? chain : [frame];
  };

  // groups has the found frames of each text, labelOf(frame) the pixels of a label. Returns what is
  // drawn, as FlameTree.place… of flames.js has it; null if nothing was found below the focus.
  const place = (tree, focus, groups, room, labelOf) => {
    const chosen = choose(tree, focus, groups, room, labelOf);
    if (!chosen.size) {
      return null;
    }
    const { shown, needs } = measure(tree, focus, chosen, labelOf);
    const width = Math.max(room, Math.ceil(needs.get(focus)));
    const placed = [];
    const pending = [{ frame: focus, level: 0, left: 0, pixels: width, above: -1 }];
    while (pending.length) {
      const { frame, level, left, pixels, above } = pending.pop();
      const members = chainFrom(frame, (one) => chosen.has(one), (one) => childrenOf(tree, shown, one));
      const last = members.at(-1);
      placed.push({ frame: last, members, level, left: left / width, width: pixels / width, above });
      const called = childrenOf(tree, shown, last);
      const widths = share(called, pixels, (one) => tree.order[one], (one) => needs.get(one));
      let at = left;
      for (const child of called) {
        pending.push({ frame: child, level: level + 1, left: at, pixels: widths.get(child), above: last });
        at += widths.get(child);
      }
    }
    return { placed, chosen, width };
  };

  return { place };
})();

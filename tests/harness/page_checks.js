// What is wrong with what a page shows, in sentences; evaluated in the page by tests/harness/pages.py.
(printed) => {
  const problems = [];
  const SLACK = 1.5; // px: borders and rounding
  const words = (text) => text.trim().replace(/\s+/g, " ").slice(0, 50);
  const named = (element) => {
    const kind = element.getAttribute("class");
    return `<${element.localName}${kind ? ` class="${kind}"` : ""}> "${words(element.textContent)}"`;
  };
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  // Text for those who listen: a box of a pixel.
  const isForListeners = (box) => box.width <= 1 || box.height <= 1;
  const cuts = (overflow) => overflow === "hidden" || overflow === "clip";
  const scrolls = (overflow) => overflow === "auto" || overflow === "scroll";

  // Walks from a box outwards: the first ancestor that cuts it off, or the page. A box that scrolls may be left on
  // screen, since a reader can get there; paper doesn't scroll.
  const whatCuts = (element, box) => {
    let { left, right, top, bottom } = box;
    for (let outer = element; outer && outer !== document.documentElement; outer = outer.parentElement) {
      if (outer === document.body) break;
      const style = getComputedStyle(outer);
      if (style.display === "contents" || style.display === "inline") continue;
      const frame = outer.getBoundingClientRect();
      const beside = left < frame.left - SLACK || right > frame.right + SLACK;
      const above = top < frame.top - SLACK || bottom > frame.bottom + SLACK;
      if (beside && cuts(style.overflowX)) return isForListeners(frame) ? "" : named(outer);
      if (above && cuts(style.overflowY)) return isForListeners(frame) ? "" : named(outer);
      if (scrolls(style.overflowX) || scrolls(style.overflowY)) {
        if (printed && (beside || above)) return `${named(outer)}, which scrolls`;
        left = Math.max(left, frame.left), right = Math.min(right, frame.right);
        top = Math.max(top, frame.top), bottom = Math.min(bottom, frame.bottom);
        if (left >= right || top >= bottom) return ""; // scrolled out of view
      }
    }
    const page = left + scrollX < -SLACK || right + scrollX > innerWidth + SLACK || top + scrollY < -SLACK;
    return page ? "the edge of the page" : "";
  };

  if (document.documentElement.scrollWidth > innerWidth)
    problems.push(`The page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}.`);

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    if (!text.data.trim() || ["SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT"].includes(element.tagName)) continue;
    if (element.closest("svg title, svg desc, option") || !isShown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    // A link to skip to the contents waits outside of the page until it has the focus.
    if (box.right < 0 && element.closest("a")) continue;
    const edge = whatCuts(element, box);
    if (edge) problems.push(`Text "${words(text.data)}" is cut off by ${edge}.`);
  }

  for (const svg of document.querySelectorAll("svg")) {
    if (!isShown(svg)) continue;
    const frame = svg.getBoundingClientRect();
    for (const mark of svg.querySelectorAll("text, path, use, rect, circle, line, polyline, polygon, image")) {
      // What is meant to be cut, such as a curve at the ends of its axes; and what only defines others.
      if (mark.closest("[clip-path], defs, clipPath, marker, symbol, pattern") || !isShown(mark)) continue;
      const box = mark.getBoundingClientRect();
      if (!box.width && !box.height) continue;
      const outside =
        box.left < frame.left - SLACK || box.right > frame.right + SLACK ||
        box.top < frame.top - SLACK || box.bottom > frame.bottom + SLACK;
      if (outside) problems.push(`A drawing's ${named(mark)} leaves it: ${named(svg)}.`);
    }
    // Drawings within drawings are told about by the outermost.
    if (svg.parentElement.closest("svg") || svg.closest("[aria-hidden=true]")) continue;
    if (!svg.querySelector(":scope > title") && !svg.hasAttribute("aria-label") && !svg.hasAttribute("aria-labelledby"))
      problems.push(`A drawing has no title: ${named(svg)}.`);
  }

  for (const table of document.querySelectorAll("table")) {
    if (!table.caption || !table.caption.textContent.trim()) problems.push(`A table has no caption: ${named(table)}.`);
    if (!table.querySelector("th")) problems.push(`A table has no heading: ${named(table)}.`);
  }
  for (const heading of document.querySelectorAll("th:not([scope])"))
    problems.push(`A heading of a table doesn't say whether of a row or a column: ${named(heading)}.`);

  if (printed) {
    const paper = [document.body, document.documentElement].map((one) => getComputedStyle(one).backgroundColor);
    if (paper.some((colour) => !["rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"].includes(colour)))
      problems.push(`Paper is not white: ${paper}.`);
    for (const details of document.querySelectorAll("details"))
      for (const part of details.children)
        // What paper leaves out on purpose is not displayed; what is folded is displayed and not shown.
        if (part.tagName !== "SUMMARY" && details.checkVisibility() && part.textContent.trim() && !isShown(part) && getComputedStyle(part).display !== "none") {
          problems.push(`Details are closed on paper: ${named(details.querySelector("summary"))}.`);
          break;
        }
  }

  return [...new Set(problems)];
}

"use strict";
// Comfort only: without this script everything is shown, in the order that the page was written in.

// -- tables that sort ----------------------------------------------------------------------------------------------

function keyOf(row, column) {
  const cell = row.cells[column];
  const written = cell ? cell.dataset.value ?? cell.textContent.trim() : "";
  // "under 1 %" comes before "1 %", "over 99 %" after "99 %"; "1,234" is a number, and so is what has an interval.
  const [, beside, digits] = /^(over |under )?([+-]?[\d,]*\.?\d+)(?![\w.])/.exec(written) ?? [];
  if (digits === undefined) return written;
  return Number(digits.replaceAll(",", "")) + (beside === undefined ? 0 : beside === "over " ? 1e-9 : -1e-9);
}

function compared(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  if (typeof one === "number") return 1;
  if (typeof other === "number") return -1;
  return one.localeCompare(other, undefined, { numeric: true });
}

function sortBy(table, heading, column) {
  const descending = heading.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => compared(keyOf(one, column), keyOf(other, column)) * (descending ? -1 : 1));
  table.tBodies[0].append(...rows);
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    if (!heading.textContent.trim() || heading.tagName !== "TH") return;
    const button = document.createElement("button");
    button.className = "sort";
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sortBy(table, heading, column));
    heading.append(button);
  });
}

// -- columns by name, cards opened and closed ------------------------------------------------------------------------

function filterColumns(text) {
  const wanted = text.trim().toLowerCase();
  let shown = 0;
  for (const element of document.querySelectorAll("[data-column]")) {
    element.hidden = !element.dataset.column.toLowerCase().includes(wanted);
    if (!element.hidden && element.classList.contains("card")) shown += 1;
  }
  const told = document.getElementById("filtered");
  if (told) told.textContent = wanted ? `${shown} shown` : "";
}

function setUpTools() {
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;
  const filter = document.getElementById("filter");
  if (filter) filter.addEventListener("input", () => filterColumns(filter.value));
  for (const button of document.querySelectorAll("[data-open]")) {
    button.addEventListener("click", () => {
      for (const card of document.querySelectorAll("details.card:not([hidden])")) card.open = button.dataset.open === "yes";
    });
  }
}

// -- links to what is folded away -------------------------------------------------------------------------------------

function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let place = target; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
  target.scrollIntoView();
}

// -- words of what is pointed at ---------------------------------------------------------------------------------------

function setUpPointing() {
  const box = document.createElement("div");
  box.id = "pointed";
  box.hidden = true;
  box.setAttribute("aria-hidden", "true");
  document.body.append(box);
  let held = null; // the mark's own title would show a second box
  const release = () => {
    if (held) held.mark.prepend(held.title);
    held = null;
    box.hidden = true;
  };
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest?.("svg rect, svg path");
    if (held && mark === held.mark) return place(box, event);
    release();
    const title = mark?.querySelector("title");
    if (!title) return;
    held = { mark, title };
    title.remove();
    box.textContent = title.textContent;
    box.hidden = false;
    place(box, event);
  });
  document.addEventListener("pointerleave", release);
  document.addEventListener("scroll", release, { passive: true });
}

function place(box, event) {
  const right = event.clientX + 14 + box.offsetWidth > innerWidth;
  box.style.left = `${Math.max(4, right ? event.clientX - box.offsetWidth - 10 : event.clientX + 14)}px`;
  box.style.top = `${Math.max(4, event.clientY - box.offsetHeight - 8)}px`;
}

// -- paper: nothing stays folded -------------------------------------------------------------------------------------

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
  folded = [];
});

for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
setUpTools();
setUpPointing();
addEventListener("hashchange", openTarget);
openTarget();

// Sorts a table at a click on a heading, filters rows by name, and shows a shortened name in full at a click.
"use strict";
(() => {
  const cell = (row, column) => row.cells[column];
  const value = (row, column) => {
    const given = cell(row, column).dataset.value;
    return given === undefined ? null : Number(given);
  };
  const text = (row, column) => cell(row, column).textContent;

  const order = (column, figures, falling) => (a, b) => {
    if (!figures) return (falling ? -1 : 1) * text(a, column).localeCompare(text(b, column), "en", { numeric: true });
    const [left, right] = [value(a, column), value(b, column)];
    if (left === null || right === null) return (left === null) - (right === null);
    return (falling ? -1 : 1) * (left - right);
  };

  for (const table of document.querySelectorAll("table.figures")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const figures = head.classList.contains("figure");
        const before = head.getAttribute("aria-sort");
        const falling = before ? before === "ascending" : figures;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort(order(column, figures, falling)));
      });
    });
  }

  for (const name of document.querySelectorAll("td .name, .bars .name")) {
    name.addEventListener("click", () => name.classList.toggle("whole"));
  }

  const box = document.querySelector("#filter");
  if (!box) return;
  const status = document.querySelector("#found");
  const rows = [...document.querySelectorAll("table.figures tbody tr")];
  box.closest("form").hidden = false;
  box.closest("form").addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of rows) {
      const names = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => names.includes(word));
      found += row.hidden ? 0 : 1;
      if (words.length && !row.hidden) row.closest("details").open = true;
    }
    status.textContent = words.length ? `${found} of ${rows.length} rows` : "";
  });
})();

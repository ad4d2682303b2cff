// Tables sort by a click on a heading and can be filtered by text. Without scripts the page shows the same.
document.querySelectorAll("table.sortable").forEach((table) => {
  const body = table.tBodies[0];
  const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending" && !head.classList.contains("words") || head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(value(a, column), value(b, column)));
      body.append(...rows);
    });
  });
  const filter = table.closest("section").querySelector("input[type=search]");
  filter?.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(" ").filter(Boolean);
    for (const row of body.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
});

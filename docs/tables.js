// Cells of tables: on narrow screens site.css shows each row as a card, whose lines begin with the names of their columns;
// long names of code break at their underscores, slashes and colons.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    for (const code of table.querySelectorAll("td code, th"))
      if (code.innerText.length > 14 && !code.children.length)
        code.replaceChildren(...code.innerText.split(/(?<=[_/.:=,])/).flatMap(part => [part, document.createElement("wbr")]))
    const names = [...table.querySelectorAll("thead th")].map(cell => cell.innerText.trim())
    if (names.length > 5) table.dataset.matrix = ""
    if (names.length < 2 || names.length > 5) continue
    table.dataset.columns = names.length
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, index) => { if (names.length > 2 && index) cell.dataset.name = names[index] })
  }
})

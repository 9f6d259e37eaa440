"use strict";
// Shows status.json as it changes, and loads the page again when there is another report.
(() => {
  const live = document.getElementById("live");
  if (live.dataset.over === "yes") return;

  const fill = (name, lines) => {
    const list = document.getElementById(name);
    const shown = [...list.children].map((item) => item.textContent);
    if (shown.join("\n") === lines.join("\n")) return;
    list.replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    list.hidden = lines.length === 0;
  };

  const look = async () => {
    try {
      const status = await (await fetch("status.json", { cache: "no-store" })).json();
      if (String(status.reports) !== live.dataset.reports) return location.reload();
      fill("lines", status.lines);
      fill("trouble", status.trouble);
      if (status.is_over) return undefined;
    } catch {
      fill("trouble", ["The page server does not answer. Is `docker compose up` still running?"]);
    }
    return setTimeout(look, 1000);
  };
  look();
})();

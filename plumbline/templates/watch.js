"use strict";
// Shows what changes of this page as it changes, and loads it again when there is another report.
(() => {
  const live = document.getElementById("live");
  if (live.dataset.over === "yes") return;

  const look = async () => {
    let now;
    try {
      const page = await (await fetch("index.html", { cache: "no-store" })).text();
      now = new DOMParser().parseFromString(page, "text/html").getElementById("live");
    } catch {
      const trouble = document.getElementById("trouble");
      const words = "The page server does not answer. Is `docker compose up` still running?";
      trouble.replaceChildren(Object.assign(document.createElement("li"), { textContent: words }));
      trouble.hidden = false;
      return setTimeout(look, 1000);
    }
    if (now.dataset.reports !== live.dataset.reports) return location.reload();
    for (const part of live.children) {
      const next = now.querySelector(`#${part.id}`);
      if (part.innerHTML !== next.innerHTML) part.replaceChildren(...next.childNodes);
    }
    return now.dataset.over === "yes" ? undefined : setTimeout(look, 1000);
  };
  look();
})();

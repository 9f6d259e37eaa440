// Tables that are wider than a phone scroll: who has no mouse gets there by the keyboard.
const reachable = () => document.querySelectorAll(".md-typeset__scrollwrap").forEach((one) => (one.tabIndex = 0));
new MutationObserver(reachable).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
reachable();

"use strict";
// Saves the files that the page carries.
page.attach((main) => {
  const save = async (element) => {
    const { name, media } = element.dataset;
    const text = await page.unpack(element.querySelector("script").textContent);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: media }));
    link.download = name;
    link.click();
    // The browser has begun to save it when the next task runs.
    setTimeout(() => URL.revokeObjectURL(link.href));
    page.say(`${name} is saved.`);
  };
  main.querySelectorAll(".download").forEach((element) => {
    const button = element.querySelector("button");
    button?.addEventListener("click", () => save(element));
    button?.removeAttribute("hidden");
  });
});

// Turns all motion into the styles of its moments, because the browser draws text a little differently while it moves
// something. `hold` shows a moment; at the last one everything has arrived.
(times) => { const motions = document.getAnimations();
  const moments = times.map((time) => motions.map((motion) => {
    motion.pause();
    motion.currentTime = time;
    const { target } = motion.effect, { translate, opacity } = getComputedStyle(target);
    return [target, { translate, opacity }];
  }));
  for (const motion of motions) motion.cancel();
  const arrived = motions.map(({ effect }) => [effect.target, { translate: "", opacity: "" }]);
  window.hold = (at) => { for (const [target, style] of moments[at] ?? arrived) Object.assign(target.style, style); };
}

/** What the kept states in `states` were made with. */
export const upgradeOptions = {
  configuration: { "program:token": "correct-horse-battery-staple" },
  secretKeys: ["program:token"],
};

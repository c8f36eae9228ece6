/** The options with which the states in `states` were created. */
export const upgradeOptions = {
  configuration: { "program:token": "correct-horse-battery-staple" },
  secretKeys: ["program:token"],
};

// Policy packs are loaded as CommonJS.
const { PolicyPack } = require("@pulumi/policy");
const { guardrails } = require("ramet/policy");

new PolicyPack("platform", {
  policies: [
    ...guardrails({
      settings: {
        "ramet-bounded-replicas": { maxReplicas: 50 },
        "ramet-bounded-lifetimes": { maxLifetime: "24 hours" },
      },
    }),
    // Policies of your own stand here.
  ],
});

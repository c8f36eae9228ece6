import { core } from "@pulumi/kubernetes";

/** A hundred ConfigMaps, the baseline for the program with Ramet's objects. */
for (let number = 0; number < 100; number++) {
  new core.v1.ConfigMap(`map-${number}`, {
    metadata: { name: `map-${number}`, namespace: "default" },
    data: { number: String(number) },
  });
}

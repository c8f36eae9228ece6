import { driverName } from "../driver-name.ts";
import { requests } from "../requests.ts";
import { type Method, method } from "../unary.ts";

/** The Identity service. */
export function identityService(version: string): Record<string, Method> {
  return {
    GetPluginInfo: method(requests.empty, () => ({ name: driverName, vendorVersion: version })),
    GetPluginCapabilities: method(requests.empty, () => ({
      capabilities: [
        { service: { type: "CONTROLLER_SERVICE" } },
        { service: { type: "GROUP_CONTROLLER_SERVICE" } },
        { service: { type: "VOLUME_ACCESSIBILITY_CONSTRAINTS" } },
        { volumeExpansion: { type: "ONLINE" } },
      ],
    })),
    Probe: method(requests.empty, () => ({ ready: { value: true } })),
  };
}

import { volumeScenarios } from "./scenarios.ts";
import { VolumesSetting } from "./setting.ts";

volumeScenarios(() => VolumesSetting.parse(JSON.parse(process.env["RAMET_TEST_VOLUMES"] ?? "{}")));

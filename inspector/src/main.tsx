import { render } from "preact";
import { start } from "./state/app";
import { takeToken } from "./state/dev";
import { followRoute } from "./state/route";
import { followTheme } from "./state/settings";
import "./style.css";
import { App } from "./ui/app";

takeToken();
followTheme();
followRoute();
const root = document.getElementById("app") as HTMLElement;
root.textContent = "";
render(<App />, root);
start();

// The parts of ECharts that a report draws with. build.sh makes crates/report/assets/echarts.js of it.
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import {
    AriaComponent,
    DataZoomInsideComponent,
    GridComponent,
    LegendPlainComponent,
    MarkLineComponent,
    TooltipComponent,
} from "echarts/components";
import { init, use } from "echarts/core";
import { LabelLayout } from "echarts/features";
import { CanvasRenderer } from "echarts/renderers";

use([
    AriaComponent,
    BarChart,
    CanvasRenderer,
    CustomChart,
    DataZoomInsideComponent,
    GridComponent,
    LabelLayout,
    LegendPlainComponent,
    LineChart,
    MarkLineComponent,
    ScatterChart,
    TooltipComponent,
]);

export { init };

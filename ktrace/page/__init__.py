"""HTML pages with charts.

render         renders tables as text, CSV, JSON, Markdown, HTML or a workbook
page           a self-contained page: key figures, charts, tables
blocks         the blocks of a page: key figures, bars, legends, tables; elements of SVG with escaped text
charts         charts as inline SVG, also over time: use of devices, steps, layers, waits
ranks          the devices of a job: of many a map of ranks by steps, and the worst of them
summary_page   the charts of a summary and of its answers: why devices are idle, the roofline
diff_page      the charts of a comparison
fleet_page     the charts of a fleet: a map of rank by step, the stages of the pipeline
overview_page  the page of an overview: lanes over time, what is heavy in a part, the way to Perfetto
drawing        charts of the page as one SVG, for notebooks and files; what a notebook shows
"""

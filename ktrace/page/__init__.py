"""HTML pages with charts.

render         renders tables as text, CSV, JSON, Markdown or HTML
page           a self-contained page: key figures, charts, tables
blocks         the blocks of a page: key figures, bars, legends, tables
charts         charts as inline SVG
use_charts     charts over time: use of devices, steps, layers, waits
summary_page   the charts of a summary
diff_page      the charts of a comparison
markup         elements of HTML and SVG with escaped text
"""

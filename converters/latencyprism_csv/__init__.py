"""LatencyPrism's CSV: each function's share of each cycle, and the counters of the same run (DeepDive, 2025).

    cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,…,cycle_start_ts,…
    0,4711,node7,3.21,oncpu,host_cpu_usage,Host,python,5.84,0.12,20270.5,…,1736413971558972.912,…

    counter_name,timestamp,value,hostname
    gpu_usage,1736413971558972.912,7.25,node7

Times are epoch microseconds. `*_perf_data.csv` has the first form, `*_counters_data.csv` the second.
"""

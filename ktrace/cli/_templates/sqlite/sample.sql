CREATE TABLE {{module}}_kernels (id INTEGER PRIMARY KEY, name TEXT, start INTEGER, end INTEGER, device INTEGER, stream INTEGER);
INSERT INTO {{module}}_kernels VALUES (1, 'gemm_f16', 1000, 1400, 0, 7);
INSERT INTO {{module}}_kernels VALUES (2, 'softmax', 1500, 1520, 0, 7);
INSERT INTO {{module}}_kernels VALUES (3, 'gemm_f16', 1600, 1980, 1, 8);

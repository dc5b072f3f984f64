"""From the names of inputs to sources and formats.

expand             files, patterns and folders become inputs with labels
source             an input as a stream: a file, a folder, standard input or a URL
limits             what an input may make ktrace hold, and the option that changes it
room               copies in the temporary folder, which they never fill
steady             files that may change while they are read
recoded            text in another encoding, as a stream of UTF-8
compression        gzip, zstd and zip archives
detection          detects the format from the content
format             formats: name, file patterns, probe, reader, writer
entry_points       whether a package may add formats
mapping            which column of a table is which field of a row
proposal           a guess at such a mapping
boundary           errors of readers become errors of their input
capabilities       what only some formats can do
stand_in           inputs that are converted to another format before reading
relabel            keeps the source labels of several inputs apart
sqlite_file        opens SQLite databases safely
sqlite_journal     undoes the rollback journal beside one
places             run, host and rank in a path, and the folders of a dataset
stores             folders of files, local or in an object store
dataset_manifest   which inputs of a dataset are done
"""

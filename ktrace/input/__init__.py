"""From the names of inputs to sources and formats.

expand             files, patterns and folders become inputs with labels
source             an input as a stream: a file, a folder, standard input or a URL
files              opens local files: never a pipe, and where reading is confined only what is in allowed folders
companions         all files that are read for an input: those of a folder, those beside it that formats declare
options            a field of a selection that is an option of the commands, declared once
limits             what an input may make ktrace hold, and copies in the temporary folder, which they never fill
snapshot           files that may change while they are read
compression        gzip, zstd and zip archives, and text in another encoding
detection          detects the format from the content
wrapping           what other programs put around a text: layers before its lines, and lines before and behind it
unwrapping         looks for a text within that
ranks              a log of several processes as one text for each
format             formats: name, file patterns, probe, reader, writer, and those that other packages add
mapping            which column of a table is which field of a row
line_pattern       patterns of lines that users write
boundary           errors of readers become errors of their input
capabilities       what only some formats can do, such as to convert an input to another format before reading
relabel            keeps the source labels of several inputs apart
sqlite_file        opens SQLite databases safely, and undoes the rollback journal beside one
stores             folders of files, local or in an object store
dataset_manifest   which inputs of a dataset are done, its folders, and run, host and rank in a path
"""

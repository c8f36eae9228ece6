module ramet-go

go 1.25

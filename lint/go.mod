// The linters, pinned apart so that what they need never reaches the product:
// go tool -modfile=lint/go.mod staticcheck ./...   (go tool task lint)

module github.com/penstock/penstock/lint

go 1.26.0

tool (
	golang.org/x/tools/go/analysis/passes/nilness/cmd/nilness
	honnef.co/go/tools/cmd/staticcheck
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

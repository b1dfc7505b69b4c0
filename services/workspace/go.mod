module magosproject.io/services/workspace

go 1.26.0

require (
	magosproject.io/api v0.0.0
	magosproject.io/gen v0.0.0
	magosproject.io/internal v0.0.0
)

replace (
	magosproject.io/api => ../../api
	magosproject.io/gen => ../../gen
	magosproject.io/internal => ../../internal
)

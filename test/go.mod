module magosproject.io/test

go 1.26.0

require (
	k8s.io/apimachinery v0.37.2
	magosproject.io/api v0.0.0
	magosproject.io/gen v0.0.0
	magosproject.io/internal v0.0.0
	sigs.k8s.io/controller-runtime v0.25.2
	sigs.k8s.io/yaml v1.6.0
)

replace (
	magosproject.io/api => ../api
	magosproject.io/gen => ../gen
	magosproject.io/internal => ../internal
)

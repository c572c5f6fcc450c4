// Package e2e holds what pods see of the driver on a real cluster (package cluster). Its tests have the build tag e2e: make e2e.
package e2e

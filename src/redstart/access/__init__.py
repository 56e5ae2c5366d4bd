"""Who a caller is: `auth=`, and what a class of `redstart.auth` must offer for it."""

"""What a container takes along from one engine to another: images, layers, volumes."""
